// One conversation through an agent of Mastra: with observational memory, or with its newest messages.
// node mastra_turns.mjs KIND FILE THRESHOLD FOLDER   (KIND: newest or observational)
// A line of input asks for a turn; a line of JSON tells what it took. bench_side_by_side.py starts it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { createInterface } from 'node:readline'
import { Agent } from '@mastra/core/agent'
import { createTool } from '@mastra/core/tools'
import { LibSQLStore } from '@mastra/libsql'
import { Memory } from '@mastra/memory'
import { z } from 'zod'

const [kind, file, threshold, folder] = process.argv.slice(2)
const turns = JSON.parse(readFileSync(file, 'utf8'))
const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 }
const cpu = () => { const used = process.cpuUsage(); return (used.user + used.system) / 1e6 }

let script = [], marks = [], asked = 0
const answer = parts => ({
  content: parts, finishReason: parts.some(p => p.type === 'tool-call') ? 'tool-calls' : 'stop', usage, warnings: [],
})
const streamed = done => ({
  stream: new ReadableStream({
    start(out) {
      out.enqueue({ type: 'stream-start', warnings: [] })
      for (const part of done.content) {
        if (part.type === 'text') {
          out.enqueue({ type: 'text-start', id: '1' })
          out.enqueue({ type: 'text-delta', id: '1', delta: part.text })
          out.enqueue({ type: 'text-end', id: '1' })
        } else out.enqueue(part)
      }
      out.enqueue({ type: 'finish', finishReason: done.finishReason, usage })
      out.close()
    },
  }),
})
const model = (id, reply) => ({
  specificationVersion: 'v2', provider: 'double', modelId: id, supportedUrls: {},
  doGenerate: async options => answer(reply(options)),
  doStream: async options => streamed(answer(reply(options))),
})
const actor = model('actor', () => {
  marks.push(['asked', performance.now(), cpu()])
  const said = script.shift()
  marks.push(['said', performance.now(), cpu()])
  return said
})
const observer = model('observer', options => {
  asked += 1
  const told = options.prompt.at(-1).content.map(part => part.text).join('\n')
  const said = [...told.matchAll(/^(User|Assistant)(?: \([^)]*\))?: (.+)$/gm)]
  const lines = said.map(([, who, text]) => `* 🟡 (09:00) ${who}: ${text.split('. ')[0]}`)
  return [{ type: 'text', text: `<observations>\nDate: Mar 2, 2026\n${lines.join('\n')}\n</observations>\n<current-task>\nPrimary: talking\n</current-task>\n<suggested-response>\nGo on.\n</suggested-response>` }]
})
const lookup = createTool({
  id: 'lookup', description: 'Look something up.', inputSchema: z.object({ query: z.string() }),
  execute: async () => ({ found: 'Found: a line about it.' }),
})
const om = { model: observer, observation: { messageTokens: +threshold }, reflection: { observationTokens: +threshold } }
const memory = new Memory({
  storage: new LibSQLStore({ id: 'store', url: `file:${join(folder, 'memory.db')}` }),
  options: kind === 'observational' ? { observationalMemory: om } : { lastMessages: 90 },
})
const agent = new Agent({ id: 'a', name: 'a', instructions: 'You help.', model: actor, memory, tools: { lookup } })

let at = -1
for await (const line of createInterface({ input: process.stdin })) {
  const turn = turns[++at]
  script = turn.calls.map((query, n) => [{ type: 'tool-call', toolCallId: `c${at}-${n}`, toolName: 'lookup', input: JSON.stringify({ query }) }])
  script.push([{ type: 'text', text: turn.answer }])
  marks = [['said', performance.now(), cpu()]]
  const before = asked
  const out = await agent.generate(turn.user, { memory: { resource: 'ada', thread: 't' }, maxSteps: 8 })
  if (script.length) throw new Error(`turn ${at}: ${script.length} answers were not asked for; ${out.text}`)
  marks.push(['asked', performance.now(), cpu()])
  const waits = []
  for (let i = 0; i + 1 < marks.length; i += 2) waits.push([marks[i + 1][1] - marks[i][1], (marks[i + 1][2] - marks[i][2]) * 1000])
  console.log(JSON.stringify({ waits, resident: process.memoryUsage().rss, asked: asked - before }))
}
process.exit(0)
