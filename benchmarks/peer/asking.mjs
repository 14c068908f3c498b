/**
 * What dsh's session package can be asked of a log: `node asking.mjs FILE AT [ROUNDS]` prints one JSON object.
 *
 * It answers one of our questions, what the model was sent when the log held its first AT events: a session restored
 * from that prefix derives its messages. Reading and parsing the file is not timed. Outlines, traces and diffs are no
 * operations of the package.
 */
import { performance } from 'node:perf_hooks'
import { readStored, restore } from './stored.mjs'

const [file, at, rounds = '9'] = process.argv.slice(2)
if (file === undefined || !/^\d+$/.test(at ?? '')) {
  console.error('usage: asking.mjs FILE AT [ROUNDS]')
  process.exit(2)
}
const seconds = []
let messages = 0
for (let round = 0; round < Number(rounds); round++) {
  const { header, events } = readStored(file)
  const prefix = { header, events: events.slice(0, Number(at)) }
  const start = performance.now()
  messages = restore(prefix).deriveMessages().length
  seconds.push((performance.now() - start) / 1000)
}
const sorted = seconds.toSorted((a, b) => a - b)
console.log(JSON.stringify({ at: Number(at), messages, medianSeconds: sorted[sorted.length >> 1], bestSeconds: sorted[0] }))
