// The messages that a custom component may send through its port. Its author is not trusted, so each message is
// checked.

import type { Fields, Json } from '../api/shapes.ts'

export type Said =
  | { type: 'ready' }
  | { type: 'value'; value: Json }
  | { type: 'errors'; errors: string[] }
  | { type: 'height'; height: number }

/** The maximum size of a value, in bytes of its JSON, and its maximum depth. */
const MOST_BYTES = 2 ** 20
const MOST_LEVELS = 64
const MOST_ERRORS = 100
const LONGEST_ERROR = 1000
/** The maximum height of a frame, in pixels. */
export const HEIGHTS = { least: 40, most: 4000 }

const isRecord = (value: unknown): value is Record<string, unknown> => {
  if (typeof value !== 'object' || value === null) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}

/** A message of a component; undefined if it is invalid or too large. */
export function parseMessage(data: unknown): Said | undefined {
  if (!isRecord(data)) return undefined
  switch (data.type) {
    case 'ready':
      return { type: 'ready' }
    case 'value': {
      const value = copied(data.value)
      return value === undefined ? undefined : { type: 'value', value }
    }
    case 'errors': {
      const { errors } = data
      const isFit = Array.isArray(errors) && errors.length <= MOST_ERRORS && errors.every(isError)
      return isFit ? { type: 'errors', errors: [...new Set(errors)] } : undefined
    }
    case 'height': {
      const { height } = data
      if (typeof height !== 'number' || !Number.isFinite(height)) return undefined
      return { type: 'height', height: Math.min(Math.max(Math.ceil(height), HEIGHTS.least), HEIGHTS.most) }
    }
  }
  return undefined
}

const isError = (error: unknown) => typeof error === 'string' && error !== '' && error.length <= LONGEST_ERROR

/**
 * The maximum number of messages of a component per second, and the milliseconds of that second that the page spends on
 * them.
 */
const MOST_MESSAGES = 300
const MOST_WORK = 500
const SECOND = 1000

/** Bounds the messages of a component, which are handled on the thread that draws the page. */
export class Flood {
  private begun = Number.NEGATIVE_INFINITY
  private messages = 0
  private work = 0

  /** Handles one message, unless there were too many within a second; false: the component is to be closed. */
  admits(handle: () => void, clock = () => performance.now()): boolean {
    const now = clock()
    if (now - this.begun >= SECOND) {
      this.begun = now
      this.messages = 0
      this.work = 0
    }
    this.messages += 1
    if (this.messages > MOST_MESSAGES || this.work > MOST_WORK) return false
    handle()
    this.work += clock() - now
    return true
  }
}

class Unfit extends Error {}

/**
 * A value as JSON; undefined if it is invalid or too large. The size is counted during the copy, so that endless values
 * end.
 */
function copied(value: unknown): Json | undefined {
  let bytesLeft = MOST_BYTES
  const spend = (bytes: number) => {
    bytesLeft -= bytes
    if (bytesLeft < 0) throw new Unfit()
  }
  const text = (given: string) => {
    if (given.length > bytesLeft) throw new Unfit()
    spend(new TextEncoder().encode(JSON.stringify(given)).length)
    return given
  }
  const copy = (value: unknown, levels: number): Json => {
    if (levels > MOST_LEVELS) throw new Unfit()
    if (typeof value === 'string') return text(value)
    if (value === null || typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value))) {
      spend(`${value}`.length)
      return value
    }
    if (Array.isArray(value)) {
      spend(2)
      if (value.length > bytesLeft) throw new Unfit()
      return Array.from(value, (item: unknown) => {
        spend(1)
        return copy(item ?? null, levels + 1)
      })
    }
    if (!isRecord(value)) throw new Unfit()
    spend(2)
    const members = Object.entries(value).filter(([, member]) => member !== undefined)
    return Object.fromEntries(
      members.map(([name, member]) => {
        spend(2)
        return [text(name), copy(member, levels + 1)]
      }),
    ) as Fields
  }
  try {
    return copy(value, 1)
  } catch {
    return undefined
  }
}
