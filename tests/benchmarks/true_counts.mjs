// Counts the samples that texts.py chose in the vocabulary o200k_base, and writes the counts into the table.
//
//   npm install --prefix FOLDER gpt-tokenizer
//   NODE_PATH=FOLDER/node_modules node tests/benchmarks/true_counts.mjs
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const { countTokens } = createRequire(import.meta.url)('gpt-tokenizer/encoding/o200k_base');
const data = new URL('../data/', import.meta.url);
const file = new URL('true_counts.json', data);
const table = JSON.parse(readFileSync(file, 'utf-8'));

for (const [kind, samples] of Object.entries(table)) {
  const text = readFileSync(new URL(`texts/${kind}.txt`, data), 'utf-8').replace(/\n+$/, '');
  const passages = text.split(text.includes('\n%%\n') ? '\n%%\n' : '\n');
  for (const sample of samples) {
    sample[0] = countTokens(sample[1].map((number) => passages[number]).join('\n'));
  }
}

const lines = Object.entries(table).map(
  ([kind, samples]) => `  ${JSON.stringify(kind)}: [\n${samples.map((s) => `    ${JSON.stringify(s)}`).join(',\n')}\n  ]`,
);
writeFileSync(file, `{\n${lines.join(',\n')}\n}\n`);
