// The value of a field that a text in a table means.

import { parseDateTime, toZoned } from '@internationalized/date'
import type { Field, Fields, Json } from '../../api/shapes.ts'
import { limit } from '../../generic/limit.ts'

/** A problem by its name, with what it is about. */
export interface Problem {
  problem:
    | 'integer'
    | 'decimal'
    | 'boolean'
    | 'choice'
    | 'date'
    | 'datetime'
    | 'long'
    | 'bounds'
    | 'required'
    | 'unknown'
  of: string
}

export type Meant = { value: Json } | { name: string } | Problem

const TRUE = ['true', 'yes', 'y', '1', 'x', 'ja', 'oui', 'si', 'sí']
const FALSE = ['false', 'no', 'n', '0', 'nein', 'non']

/**
 * A number as the API takes it. Between groups of three digits may stand a sign that is not the one before the places, the same
 * one each time; anywhere else it would be guessed what is meant.
 */
function number(text: string, sign: '.' | ','): string | undefined {
  const grouping = sign === '.' ? ',' : '\\.'
  const places = sign === '.' ? '\\.' : ','
  const whole = `\\d+|[1-9]\\d{0,2}(?:([${grouping} \u00A0\u202F'’])\\d{3}(?:\\2\\d{3})*)`
  const [, written = '', , after = ''] = text.match(new RegExp(`^(-?(?:${whole})?)(${places}\\d+)?$`)) ?? []
  if (!/\d/.test(written + after)) return undefined
  return written.replaceAll(/[^-\d]/g, '') + after.replace(',', '.')
}

function choice(field: Field, text: string): Json | undefined {
  const wanted = text.toLowerCase()
  const found = field.values?.find(
    ({ value, text: label }) => `${value}`.toLowerCase() === wanted || label.toLowerCase() === wanted,
  )
  return found?.value
}

function date(text: string): string | undefined {
  const iso = text.match(/^(\d{4})-(\d{1,2})-(\d{1,2})$/)
  const dotted = text.match(/^(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4})$/)
  const [year, month, day] = iso ? iso.slice(1) : dotted ? [dotted[3], dotted[2], dotted[1]] : []
  if (!year || !month || !day) return undefined
  const written = `${year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`
  const at = new Date(`${written}T00:00:00Z`)
  return Number.isNaN(at.getTime()) || !at.toISOString().startsWith(written) ? undefined : written
}

/** A moment with its offset stays; any other, and a day alone, is one in the caller's zone, in which all are shown. */
function moment(text: string, zone: string): string | undefined {
  const [, before = '', hour, minute, second, offset] =
    text.match(
      /^(.*\d{4}|\d{4}-\d{1,2}-\d{1,2})(?:[T,\s]\s*(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?)?\s*(Z|[+-]\d{2}:?\d{2})?$/i,
    ) ?? []
  const day = date(before)
  if (!day) return undefined
  if (offset !== undefined) return hour !== undefined && !Number.isNaN(Date.parse(text)) ? text : undefined
  try {
    const time = `${(hour ?? '00').padStart(2, '0')}:${minute ?? '00'}:${second ?? '00'}`
    return toZoned(parseDateTime(`${day}T${time}`), zone).toAbsoluteString()
  } catch {
    return undefined
  }
}

/** Null for an empty text. A `name` is one that the API must be asked for. */
export function meant(field: Field, given: Json, sign: '.' | ',', zone: string): Meant {
  if (given === null) return { value: null }
  if (typeof given === 'object')
    return { value: typeof (given as Fields).id === 'number' ? ((given as Fields).id ?? null) : given }
  // An export has an apostrophe before what programs would take for a formula.
  const text = `${given}`.trim().replace(/^'(?=[=+\-@\t\r])/, '')
  if (text === '') return { value: null }
  if (field.autocomplete) return /^\d{1,15}$/.test(text) ? { value: Number(text) } : { name: text }
  if (typeof given !== 'string') return { value: given }
  switch (field.type) {
    case 'integer': {
      const plain = number(text, sign)
      if (plain === undefined || !/^-?\d+$/.test(plain)) return { problem: 'integer', of: text }
      const value = Number(plain)
      const isOutside = value < (limit(field, 'min_value') ?? value) || value > (limit(field, 'max_value') ?? value)
      if (isOutside) return { problem: 'bounds', of: text }
      return { value: Number.isSafeInteger(value) ? value : plain }
    }
    case 'decimal': {
      const plain = number(text, sign)
      return plain === undefined ? { problem: 'decimal', of: text } : { value: plain }
    }
    case 'boolean': {
      const word = text.toLowerCase()
      if (TRUE.includes(word)) return { value: true }
      return FALSE.includes(word) ? { value: false } : { problem: 'boolean', of: text }
    }
    case 'enum':
    case 'status': {
      const value = choice(field, text)
      return value === undefined ? { problem: 'choice', of: text } : { value }
    }
    case 'set': {
      const parts = text.split(/[,;|]/).map((part) => part.trim())
      const values = parts.filter(Boolean).map((part) => choice(field, part))
      const wrong = values.indexOf(undefined)
      return wrong >= 0 ? { problem: 'choice', of: parts[wrong] ?? '' } : { value: values as Json[] }
    }
    case 'date': {
      const value = date(text)
      return value ? { value } : { problem: 'date', of: text }
    }
    case 'datetime': {
      const value = moment(text, zone)
      return value ? { value } : { problem: 'datetime', of: text }
    }
  }
  const longest = limit(field, 'max_length')
  return longest !== undefined && [...text].length > longest ? { problem: 'long', of: `${longest}` } : { value: text }
}

/** The sign before the places that a number shows by itself; undefined where it may be either. */
function signIn(text: string): '.' | ',' | undefined {
  const signs = text.match(/[.,]/g) ?? []
  const last = signs.at(-1) as '.' | ',' | undefined
  if (last === undefined) return undefined
  // What stands there twice stands between groups, and so does a lone one that three digits follow, unless a zero is before it.
  if (signs.length > 1 && signs.every((sign) => sign === last)) return last === '.' ? ',' : '.'
  return signs.length > 1 || !/[.,]\d{3}$/.test(text) || /^-?0?[.,]/.test(text) ? last : undefined
}

/** The sign before the places of numbers: the one that most of them show. */
export function signOf(samples: string[]): '.' | ',' {
  const signs = samples
    .map((text) => text.trim())
    .filter((text) => /^-?[\d.,'’\s]+$/.test(text))
    .map(signIn)
  return signs.filter((sign) => sign === ',').length > signs.filter((sign) => sign === '.').length ? ',' : '.'
}

/** Which field a column is meant for, by its alias or its label. */
export function fieldFor(column: string, fields: Field[]): string {
  const plain = (text: string) => text.toLowerCase().replaceAll(/[^\p{L}\p{N}]+/gu, '')
  const wanted = plain(column)
  const found =
    fields.find(({ alias }) => alias === column) ??
    fields.find(({ alias, label }) => plain(alias) === wanted || plain(label ?? '') === wanted)
  return found?.alias ?? ''
}
