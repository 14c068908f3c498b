/** The part of dsh's `AssistantStreamAccumulator` that its migration uses: every chunk a record of its own, in order. */
export class AssistantStreamAccumulator {
  #records = []

  push({ time, chunk }) {
    this.#records.push({ type: 'chunk', time, chunk })
  }

  snapshot() {
    return [...this.#records]
  }
}
