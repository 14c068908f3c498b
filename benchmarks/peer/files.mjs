/**
 * dsh's file backend: `openFiles(root, compression)` gives its persistence service on a root.
 *
 * The service is a plugin of dsh's plugin context; nothing else of dsh is loaded.
 */
import { Context } from '@deepseek-ai/cordis'
import sessions from '@deepseek-ai/dsh-session'
import files from '@deepseek-ai/dsh-session-persistence-jsonl'

export async function openFiles(root, compression) {
  const context = new Context()
  await context.plugin(sessions)
  await context.plugin(files, { root, compression })
  return context.sessionPersistence
}
