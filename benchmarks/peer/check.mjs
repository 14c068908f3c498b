/**
 * What dsh makes of a log: `node check.mjs FILE` prints one JSON object.
 *
 * `events` counts the `session/end-seed` that dsh appends when it restores a log that does not end
 * with one; `header` is the folded request header, absent when the log holds none.
 */
import { readStored, restore } from './stored.mjs'

const session = restore(readStored(process.argv[2]))
console.log(JSON.stringify({
  id: session.id,
  events: session.events.length,
  nodes: session.surface.nodes,
  replaceGeneration: session.surface.replaceGeneration,
  messages: session.deriveMessages(),
  header: session.requestHeader(),
}))
