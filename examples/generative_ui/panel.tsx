// The panel that `graph.py` pushes. React escapes all texts, which are what users said.

type Window = { tokens: number; threshold: number };

type Props = {
  title: string;
  messages: Window;
  observations: Window;
  lines: string[];
};

function Bar({ label, tokens, threshold }: Window & { label: string }) {
  const share = Math.min(100, Math.round((100 * tokens) / Math.max(1, threshold)));
  return (
    <p style={{ margin: "0.3rem 0" }}>
      <small>
        {label}: {tokens} of {threshold} tokens
      </small>
      <progress value={share} max={100} style={{ width: "100%" }} aria-label={label} />
    </p>
  );
}

function MemoryPanel({ title, messages, observations, lines }: Props) {
  return (
    <details style={{ border: "1px solid #8886", borderRadius: 8, padding: "0.5rem 0.8rem" }}>
      <summary>{title}</summary>
      <Bar label="Messages" {...messages} />
      <Bar label="Observations" {...observations} />
      <pre style={{ whiteSpace: "pre-wrap", font: "inherit" }}>{lines.join("\n")}</pre>
    </details>
  );
}

export default { "memory-panel": MemoryPanel };
