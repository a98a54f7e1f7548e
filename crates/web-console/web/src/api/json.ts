// Reads and writes JSON with exact numbers: a whole number beyond 2^53 is a bigint, since a number would be rounded.

import type { Json } from './shapes.ts'

/** Matches numbers with more digits than a double always holds, and texts with as many. */
const MAY_BE_INEXACT = /\d{16}/
const TOKEN = /\s*("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[[\]{},:])/y

export type ReadNumber = (digits: string) => Json

/** A whole number as JSON writes it. */
export const integerOf = (digits: string): number | bigint => {
  const value = Number(digits)
  return Number.isSafeInteger(value) ? value : BigInt(digits)
}

const numberOf: ReadNumber = (digits) => (/^-?\d+$/.test(digits) ? integerOf(digits) : Number(digits))

/** Parses JSON and throws as `JSON.parse` does. `readNumber` reads the numbers of more than 15 digits. */
export function parseJson(text: string, readNumber: ReadNumber = numberOf): Json {
  const value = JSON.parse(text) as Json
  return MAY_BE_INEXACT.test(text) ? exactValue(text, readNumber) : value
}

/** The value of a text that is valid JSON. */
function exactValue(text: string, readNumber: ReadNumber): Json {
  let place = 0
  const next = (): string => {
    TOKEN.lastIndex = place
    const token = TOKEN.exec(text)
    place = TOKEN.lastIndex
    return token?.[1] ?? ''
  }
  const value = (token: string): Json => {
    if (token === '[') return items()
    if (token === '{') return members()
    if (/^[-\d]/.test(token)) return MAY_BE_INEXACT.test(token.replace('.', '')) ? readNumber(token) : Number(token)
    return JSON.parse(token) as Json
  }
  const items = (): Json[] => {
    const list: Json[] = []
    for (let token = next(); token !== ']'; token = next()) if (token !== ',') list.push(value(token))
    return list
  }
  const members = (): Json => {
    const pairs: [string, Json][] = []
    for (let token = next(); token !== '}'; token = next()) {
      if (token === ',') continue
      next()
      pairs.push([JSON.parse(token) as string, value(next())])
    }
    // An assignment would set the prototype by a member `__proto__`.
    return Object.fromEntries(pairs)
  }
  return value(next())
}

const isExact = (value: unknown): boolean =>
  typeof value !== 'bigint' && (typeof value !== 'object' || value === null || Object.values(value).every(isExact))

/** Writes a value as `JSON.stringify` does, with bigints as numbers. */
export function writeJson(value: unknown, indent = 0): string {
  return isExact(value) ? (JSON.stringify(value, null, indent) ?? 'null') : exactText(value, indent, '')
}

function exactText(value: unknown, indent: number, margin: string): string {
  if (typeof value === 'bigint') return `${value}`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const inner = margin + ' '.repeat(indent)
  const colon = indent > 0 ? ': ' : ':'
  const parts = Array.isArray(value)
    ? value.map((item) => exactText(item, indent, inner))
    : Object.entries(value)
        .filter(([, member]) => member !== undefined)
        .map(([name, member]) => `${JSON.stringify(name)}${colon}${exactText(member, indent, inner)}`)
  const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{', '}']
  if (parts.length === 0) return open + close
  return indent > 0
    ? `${open}\n${inner}${parts.join(`,\n${inner}`)}\n${margin}${close}`
    : open + parts.join(',') + close
}
