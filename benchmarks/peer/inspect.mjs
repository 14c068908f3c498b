/**
 * What dsh's file loader makes of a root: `node inspect.mjs ROOT zstd|none` prints a JSON array, one object per listed
 * session: its id, its events with in-memory closers, or the error that refused it.
 */
import { openFiles } from './files.mjs'

const files = await openFiles(process.argv[2], process.argv[3])
const found = []
for (const header of await files.list()) {
  try {
    const { events } = await files.inspect(header.id)
    found.push({ id: header.id, events: events.length, types: events.map((event) => event.type) })
  } catch (error) {
    found.push({ id: header.id, error: String(error.message ?? error) })
  }
}
process.stdout.write(JSON.stringify(found), () => process.exit(0)) // exiting sooner would cut a long answer
