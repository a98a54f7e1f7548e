// Requests about many records, a thousand at a time. Refused items are removed, and the others are sent again.

import { Refusal } from '../../api/refusal.ts'
import type { Fields, Json } from '../../api/shapes.ts'
import { messages } from '../../generic/changes.ts'

export const SIZE = 1000

export interface Refused<T> {
  item: T
  text: string
}

export interface Progress<T> {
  done: number
  refused: Refused<T>[]
}

/** The messages of a refused batch for each item, without names that only the API uses. */
function places(body: { [field: string]: Json }): Map<number, string> | undefined {
  const entries = body.items ?? body.ids
  if (!entries || typeof entries !== 'object' || Array.isArray(entries)) return undefined
  const places = Object.entries(entries).map(([place, what]): [number, string] => {
    const inner =
      typeof what === 'object' && what !== null && !Array.isArray(what) ? (what as Fields) : { detail: what }
    const texts = Object.entries(messages(inner)).map(([name, text]) =>
      name ? `${name.replace(/^fields\./, '')}: ${text}` : text,
    )
    return [Number(place), texts.join(' ')]
  })
  return new Map(places.filter(([place]) => Number.isInteger(place)))
}

/**
 * A busy server did nothing, so the request is repeated. Any other request may have had an effect and is not sent
 * twice.
 */
export async function patiently<T>(
  send: () => Promise<T>,
  pause: (seconds: number) => Promise<void> = sleep,
): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await send()
    } catch (error) {
      const isBusy = error instanceof Refusal && (error.status === 503 || error.status === 429)
      if (!isBusy || tries === 5) throw error
      await pause(error.retryAfter ?? 2 ** tries)
    }
  }
}

const sleep = (seconds: number) => new Promise<void>((resolve) => setTimeout(resolve, seconds * 1000))

/**
 * Sends one part, and again without its refused items. A part that is refused as a whole is halved until the refused
 * items are found. An error that is not a refusal ends the run.
 */
async function part<T>(items: T[], send: (items: T[]) => Promise<unknown>, pause = sleep): Promise<Refused<T>[]> {
  const refused: Refused<T>[] = []
  let remaining = items
  while (remaining.length > 0) {
    try {
      const now = remaining
      await patiently(() => send(now), pause)
      return refused
    } catch (error) {
      if (!(error instanceof Refusal) || ![400, 403, 404].includes(error.status)) throw error
      const at = error.status === 400 ? places(error.body) : undefined
      if (at && at.size > 0) {
        refused.push(...remaining.flatMap((item, n) => (at.has(n) ? [{ item, text: at.get(n) ?? '' }] : [])))
        const before = remaining.length
        remaining = remaining.filter((_, n) => !at.has(n))
        if (remaining.length < before) continue
      }
      const [first] = remaining
      if (first === undefined) return refused
      if (remaining.length === 1 || error.body.error_code)
        return [...refused, ...remaining.map((item) => ({ item, text: error.detail ?? error.message }))]
      const middle = Math.ceil(remaining.length / 2)
      return [
        ...refused,
        ...(await part(remaining.slice(0, middle), send, pause)),
        ...(await part(remaining.slice(middle), send, pause)),
      ]
    }
  }
  return refused
}

export async function inBatches<T>(
  parts: AsyncIterable<T[]> | Iterable<T[]>,
  send: (items: T[]) => Promise<unknown>,
  onProgress: (progress: Progress<T>) => void,
  isStopped: () => boolean,
  pause?: (seconds: number) => Promise<void>,
): Promise<Progress<T>> {
  let progress: Progress<T> = { done: 0, refused: [] }
  for await (const items of parts) {
    if (isStopped()) break
    const refused = await part(items, send, pause)
    progress = {
      done: progress.done + items.length - refused.length,
      refused: [...progress.refused, ...refused],
    }
    onProgress(progress)
    if (isStopped()) break
  }
  return progress
}

export function* cut<T>(items: T[], size = SIZE): Generator<T[]> {
  for (let at = 0; at < items.length; at += size) yield items.slice(at, at + size)
}
