// Reads a date, or a date and a time, that a person types: the day first, as the console shows it, or as ISO 8601 has it.

import { fromAbsolute, parseDateTime, toZoned } from '@internationalized/date'
import { isoDay, type WrittenDay, writtenDay, writtenTime } from './written-dates.ts'

export interface DateKind {
  /** True for a date with a time. */
  hasTime: boolean
  /** The time zone in which dates with times are typed. */
  zone: string
  /** A year before 1900 that the person confirmed. */
  oldYear?: number | undefined
}

/**
 * A day, or a date and time in UTC, in ISO 8601; null for an empty text. Otherwise the flaw: incomplete, not in the
 * calendar, or in a year that must be confirmed.
 */
export type TypedDate = { value: string | null } | { flaw: 'half' | 'none' } | { flaw: 'old'; year: number }

const FIRST_YEAR = 1900
/** Every date is shorter. */
const LONGEST = 100
const two = (number: number) => `${number}`.padStart(2, '0')

/** The text of a value in the field; empty for a value that is not a date, as in an address that a person wrote. */
export function shownDate(value: string, { hasTime, zone }: DateKind): string {
  if (!hasTime) {
    const [, year, month, day] = value.match(/^(\d{4})-(\d{2})-(\d{2})/) ?? []
    return year ? `${day}/${month}/${year}` : ''
  }
  const at = Date.parse(value)
  if (Number.isNaN(at)) return ''
  const { year, month, day, hour, minute } = fromAbsolute(at, zone)
  return `${two(day)}/${two(month)}/${`${year}`.padStart(4, '0')}, ${two(hour)}:${two(minute)}`
}

/** Days without separators: `31122026`, `311226`, `20261231`. */
function figuresAlone(text: string): WrittenDay | undefined {
  if (!/^(\d{6}|\d{8})$/.test(text)) return undefined
  const dayFirst = { year: text.slice(4), month: Number(text.slice(2, 4)), day: Number(text.slice(0, 2)) }
  const yearFirst = { year: text.slice(0, 4), month: Number(text.slice(4, 6)), day: Number(text.slice(6)) }
  const isDay = ({ year, month, day }: WrittenDay) =>
    Number(year) >= FIRST_YEAR && isoDay(Number(year), month, day) !== undefined
  return text.length === 8 && !isDay(dayFirst) && isDay(yearFirst) ? yearFirst : dayFirst
}

/** Splits a text into day and time. Hours and minutes may follow a day of eight figures without a separator. */
function parts(text: string) {
  const [, day, hour, minute] = text.match(/^(\d{8})[,\s]*(\d{2})(\d{2})$/) ?? []
  if (day === undefined) return { day: undefined, time: writtenTime(text) }
  return { day, time: writtenTime(`${hour}:${minute}`) }
}

export function typedDate(typed: string, { hasTime, zone, oldYear }: DateKind): TypedDate {
  const text = typed.replaceAll(/[\u200e\u200f\u2066-\u2069]/g, '').trim()
  if (text === '') return { value: null }
  if (text.length > LONGEST) return { flaw: 'half' }
  const { day: dayAlone, time } = parts(text)
  if (time === 'none') return { flaw: 'none' }
  const dayText = dayAlone ?? time?.before ?? text
  const written = figuresAlone(dayText) ?? writtenDay(dayText, 'dmy')
  if (written === undefined || written.year.length % 2 === 1) return { flaw: 'half' }
  const year = written.year.length === 2 ? 2000 + Number(written.year) : Number(written.year)
  const day = isoDay(year, written.month, written.day)
  if (day === undefined) return { flaw: 'none' }
  // A day would lose its time, unless that is midnight.
  if (hasTime ? time === undefined : time !== undefined && time.time !== '00:00:00') return { flaw: 'half' }
  if (year < FIRST_YEAR && year !== oldYear) return { flaw: 'old', year }
  if (!hasTime || time === undefined) return { value: day }
  const moment = `${day}T${time.time}${time.fraction && `.${time.fraction.slice(0, 3).padEnd(3, '0')}`}`
  const value = time.offset ? new Date(moment + time.offset).toISOString() : absolute(moment, zone)
  return { value }
}

const absolute = (moment: string, zone: string) => toZoned(parseDateTime(moment), zone).toAbsoluteString()
