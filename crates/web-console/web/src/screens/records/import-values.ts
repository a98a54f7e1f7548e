// Converts the cells of a file to values of fields.

import { parseDateTime, toZoned } from '@internationalized/date'
import { integerOf } from '../../api/json.ts'
import type { Field, Fields, Json, Value } from '../../api/shapes.ts'
import { limit } from '../../generic/limit.ts'
import { type DayOrder, isoDay, writtenDay, writtenTime } from '../../kit/written-dates.ts'
import { unguarded } from './csv.ts'

export type DecimalSign = '.' | ','

/** The notation of values in a file. */
export interface Notation {
  sign: DecimalSign
  order: DayOrder
  /** Of times without an offset. */
  zone: string
  /** True if texts that look like formulas have an apostrophe in front, as in CSV. */
  isGuarded: boolean
}

/** A problem by its name, with the text or the bound that it names. */
export interface Problem {
  problem: 'integer' | 'decimal' | 'boolean' | 'choice' | 'date' | 'datetime' | 'long' | 'bounds' | 'many'
  of: string
}

export type Meant = { value: Json } | { name: string } | Problem

const TRUE = 'true yes y 1 x on ja wahr oui vrai si sí verdadero vero sim verdadeiro waar tak prawda'.split(' ')
const FALSE = 'false no n 0 off nein falsch non faux falso não nee onwaar nie fałsz'.split(' ')

/** The form in which names and options are compared: NFC, ignoring case. */
export const folded = (text: string) => text.normalize('NFC').toLowerCase()

const CURRENCY = '(?:\\p{Sc}|EUR|USD|GBP|CHF|JPY|CNY|CAD|AUD|SEK|NOK|DKK|PLN|CZK|HUF)'
const CURRENCY_BEFORE = new RegExp(`^([-+\u2212]?)\\s*${CURRENCY}\\s*`, 'iu')
const CURRENCY_AFTER = new RegExp(`\\s*${CURRENCY}$`, 'iu')

/** Strips the currency and the plus of a number, and turns brackets and U+2212 into a minus. */
function figures(text: string): string {
  const [, bracketed] = text.match(/^\(([^-+\u2212()]*)\)$/) ?? []
  const amount = (bracketed ?? text).trim()
  const bare = CURRENCY_BEFORE.test(amount) ? amount.replace(CURRENCY_BEFORE, '$1') : amount.replace(CURRENCY_AFTER, '')
  return (bracketed === undefined ? '' : '-') + bare.replace(/^\+\s?(?=[\d.,])/, '').replace(/^[-\u2212]\s?/, '-')
}

/**
 * A number as the API takes it. One sign, always the same, may separate groups of three digits; it differs from the
 * decimal sign. Any other sign would be a guess.
 */
function number(text: string, sign: DecimalSign): string | undefined {
  const grouping = sign === '.' ? ',' : '\\.'
  const places = sign === '.' ? '\\.' : ','
  const whole = `\\d+|[1-9]\\d{0,2}(?:([${grouping} \u00A0\u202F'’])\\d{3}(?:\\2\\d{3})*)`
  const [, written = '', , after = ''] = figures(text).match(new RegExp(`^(-?(?:${whole})?)(${places}\\d+)?$`)) ?? []
  if (!/\d/.test(written + after)) return undefined
  return written.replaceAll(/[^-\d]/g, '') + after.replace(',', '.')
}

/** The options of a field by name. */
type Options = Map<string, Value[]>

/** Caches the options by value, folded value, label and folded label, which are looked up in this order. */
const optionsOf = new WeakMap<Field, [Options, Options, Options, Options]>()

function namedOptions(field: Field): [Options, Options, Options, Options] {
  const cached = optionsOf.get(field)
  if (cached) return cached
  const by = (name: (option: Value) => string): Options => {
    const options: Options = new Map()
    for (const option of field.values ?? []) options.set(name(option), [...(options.get(name(option)) ?? []), option])
    return options
  }
  const named: [Options, Options, Options, Options] = [
    by(({ value }) => `${value}`),
    by(({ value }) => folded(`${value}`)),
    by(({ text }) => text.trim()),
    by(({ text }) => folded(text.trim())),
  ]
  optionsOf.set(field, named)
  return named
}

/** Finds an option by value, else by label. Several options may have the same label. */
function choice(field: Field, text: string): Meant {
  const [byValue, byFoldedValue, byLabel, byFoldedLabel] = namedOptions(field)
  const key = folded(text)
  const [first, ...others] =
    byValue.get(text) ?? byFoldedValue.get(key) ?? byLabel.get(text) ?? byFoldedLabel.get(key) ?? []
  if (first === undefined) return { problem: 'choice', of: text }
  return others.length > 0 ? { problem: 'many', of: text } : { value: first.value }
}

const SET_SEPARATORS = [', ', ',', ';', '|']

/** Splits a text into options. An option may contain the separator: the longest match counts. */
function choices(field: Field, text: string): Meant {
  const tries = SET_SEPARATORS.map((separator) => choicesBetween(field, text, separator))
  const first = tries.find((one) => 'value' in one)
  return first ?? choicesBetween(field, text.replaceAll(/[;|]/g, ','), ',')
}

function choicesBetween(field: Field, text: string, separator: string): Meant {
  const parts = text.split(separator)
  const values: Json[] = []
  for (let at = 0; at < parts.length; ) {
    if (parts[at]?.trim() === '') {
      at++
      continue
    }
    let length = 0
    for (let end = Math.min(parts.length, at + 8); end > at && length === 0; end--) {
      const outcome = choice(field, parts.slice(at, end).join(separator).trim())
      if (!('value' in outcome)) continue
      values.push(outcome.value)
      length = end - at
    }
    if (length === 0) return choice(field, parts[at]?.trim() ?? '')
    at += length
  }
  return { value: values }
}

/** Takes years of two figures for those from 1950 to 2049, as spreadsheets do. */
function yearOf(written: string): number {
  if (written.length === 2) return Number(written) + (Number(written) < 50 ? 2000 : 1900)
  return written.length === 4 ? Number(written) : 0
}

function day(text: string, order: DayOrder): string | undefined {
  const written = writtenDay(text, order)
  return written && isoDay(yearOf(written.year), written.month, written.day)
}

/** Reads a day. It may have a midnight, which spreadsheets add; any other time would be lost. */
function date(text: string, order: DayOrder): string | undefined {
  const time = writtenTime(text)
  if (time === undefined) return day(text, order)
  const isMidnight = time !== 'none' && time.time === '00:00:00' && /^0*$/.test(time.fraction)
  return isMidnight && (time.offset === undefined || time.offset === 'Z') ? day(time.before, order) : undefined
}

/**
 * Reads a date and time with an offset, or in the time zone of the caller, like the console shows them. A day is its
 * midnight.
 */
function moment(text: string, { order, zone }: Notation): string | undefined {
  const written = writtenTime(text)
  if (written === 'none') return undefined
  const at = day(written?.before ?? text, order)
  if (!at) return undefined
  const { time, fraction, offset } = written ?? { time: '00:00:00', fraction: '', offset: undefined }
  if (offset !== undefined) return `${at}T${time}${fraction && `.${fraction}`}${offset}`
  try {
    const absolute = toZoned(parseDateTime(`${at}T${time}`), zone).toAbsoluteString()
    return absolute.replace('.000Z', `.${fraction.padEnd(3, '0')}Z`)
  } catch {
    return undefined
  }
}

const SHORT = ['integer', 'decimal', 'boolean', 'date', 'datetime']
/** The maximum number of characters of a number, a day, or a date and time. */
export const LONGEST = 100

/** Converts a cell; an empty text is null. The API must be asked for a `name`. */
export function meant(field: Field, cell: Json, notation: Notation): Meant {
  if (cell === null) return { value: null }
  if (typeof cell === 'object')
    return { value: typeof (cell as Fields).id === 'number' ? ((cell as Fields).id ?? null) : cell }
  const whole = typeof cell === 'string' && notation.isGuarded ? unguarded(cell) : `${cell}`
  const text = whole.trim()
  if (text === '') return { value: null }
  if (field.autocomplete) return /^\d{1,15}$/.test(text) ? { value: Number(text) } : { name: text }
  if (typeof cell !== 'string') return { value: cell }
  if (text.length > LONGEST && SHORT.includes(field.type))
    return { problem: field.type as Problem['problem'], of: `${text.slice(0, LONGEST)}…` }
  switch (field.type) {
    case 'integer': {
      const plain = number(text, notation.sign)
      if (plain === undefined || !/^-?\d+$/.test(plain)) return { problem: 'integer', of: text }
      const value = integerOf(plain)
      const isOutside = value < (limit(field, 'min_value') ?? value) || value > (limit(field, 'max_value') ?? value)
      return isOutside ? { problem: 'bounds', of: text } : { value }
    }
    case 'decimal': {
      const plain = number(text, notation.sign)
      return plain === undefined ? { problem: 'decimal', of: text } : { value: plain }
    }
    case 'boolean': {
      const word = folded(text)
      if (TRUE.includes(word)) return { value: true }
      return FALSE.includes(word) ? { value: false } : { problem: 'boolean', of: text }
    }
    case 'enum':
    case 'status':
      return choice(field, text)
    case 'set':
      return choices(field, text)
    case 'date': {
      const value = date(text, notation.order)
      return value ? { value } : { problem: 'date', of: text }
    }
    case 'datetime': {
      const value = moment(text, notation)
      return value ? { value } : { problem: 'datetime', of: text }
    }
  }
  const longest = limit(field, 'max_length')
  return longest !== undefined && [...text].length > longest ? { problem: 'long', of: `${longest}` } : { value: whole }
}

/** The decimal sign of a number; undefined if both signs are possible. */
function signIn(text: string): DecimalSign | undefined {
  const signs = text.match(/[.,]/g) ?? []
  const last = signs.at(-1) as DecimalSign | undefined
  if (last === undefined) return undefined
  // A repeated sign separates groups. So does a single one before three digits, unless a zero precedes it.
  if (signs.length > 1 && signs.every((sign) => sign === last)) return last === '.' ? ',' : '.'
  return signs.length > 1 || !/[.,]\d{3}$/.test(text) || /^-?0?[.,]/.test(text) ? last : undefined
}

/** The sign before the places of numbers: the one that most of them show. */
export function signOf(samples: string[]): DecimalSign {
  const signs = samples
    .map((text) => figures(text.trim()))
    .filter((text) => /^-?[\d.,'’\s]+$/.test(text))
    .map(signIn)
  return signs.filter((sign) => sign === ',').length > signs.filter((sign) => sign === '.').length ? ',' : '.'
}

/** True if a text is a day in digits whose order of day and month must be chosen. */
export const isEitherOrder = (text: string) =>
  /^\s*\d{1,2}\s*[/\-\s,]\s*\d{1,2}\s*[/\-\s,]\s*(?:\d{2}|\d{4})(?!\d)/.test(text)

/** The order in which more of the days exist; the caller's own if both are equal. */
export function orderOf(samples: string[], own: DayOrder): DayOrder {
  const written = samples.filter(isEitherOrder).map((text) => text.match(/\d+/g)?.map(Number) ?? [])
  const dayFirst = written.filter(([first = 0, second = 0]) => first > 12 && second <= 12).length
  const monthFirst = written.filter(([first = 0, second = 0]) => second > 12 && first <= 12).length
  if (dayFirst === monthFirst) return own
  return dayFirst > monthFirst ? 'dmy' : 'mdy'
}

/** The order of day and month in the language of the browser. */
export function ownOrder(language?: string): DayOrder {
  const parts = new Intl.DateTimeFormat(language).formatToParts(0).map(({ type }) => type)
  return parts.indexOf('month') < parts.indexOf('day') && parts.indexOf('month') < parts.indexOf('year') ? 'mdy' : 'dmy'
}

/** The columns that exports have beside the fields of a class. No field matches them by its label. */
const OF_EXPORTS = ['created_at', 'created_by', 'modified_at', 'modified_by', 'object_class', '_meta']

const plain = (text: string) =>
  text
    .normalize('NFC')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, '')

/** Maps columns to the aliases of fields, by alias, else by label; empty for a column without a field. Each field is used once. */
export function fieldsFor(columns: string[], fields: Field[]): string[] {
  const free = new Set(fields.map(({ alias }) => alias))
  const claimField = (field: Field | undefined): string => {
    if (field) free.delete(field.alias)
    return field?.alias ?? ''
  }
  const exact = columns.map((column) => claimField(fields.find(({ alias }) => alias === column && free.has(alias))))
  return columns.map((column, n) => {
    const key = plain(column)
    if (exact[n] !== '' || key === '' || OF_EXPORTS.includes(column)) return exact[n] ?? ''
    const isNamed = ({ alias, label }: Field) => plain(alias) === key || plain(label ?? '') === key
    return claimField(fields.find((field) => free.has(field.alias) && isNamed(field)))
  })
}
