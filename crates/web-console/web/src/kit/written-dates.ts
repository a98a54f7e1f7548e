// Parses days and times as people and programs write them.

/** The order of day and month in `1/2/2026`. A year of four digits may come first in either order. */
export type DayOrder = 'dmy' | 'mdy'

export interface WrittenDay {
  /** The digits of the day, as they were written. */
  year: string
  month: number
  day: number
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const SEPARATOR = '[./,\\-\\s]+'
const FIGURES = new RegExp(`^(\\d{1,4})${SEPARATOR}(\\d{1,2})${SEPARATOR}(\\d{1,4})$`)
const DAY_FIRST = new RegExp(`^(\\d{1,2})${SEPARATOR}(\\p{L}{3,9})${SEPARATOR}(\\d{4}|\\d{2})$`, 'u')
const MONTH_FIRST = new RegExp(`^(\\p{L}{3,9})${SEPARATOR}(\\d{1,2})${SEPARATOR}(\\d{4}|\\d{2})$`, 'u')

/** Splits a day into its parts; undefined for any other text. `isoDay` checks that the day exists. */
export function writtenDay(text: string, order: DayOrder): WrittenDay | undefined {
  const [, first, second, third] = text.match(FIGURES) ?? []
  if (first !== undefined && second !== undefined && third !== undefined) {
    if (first.length === 4) return third.length > 2 ? undefined : partsOf(first, second, third)
    if (first.length > 2) return undefined
    // Points separate day, month and year in this order alone.
    return order === 'mdy' && !text.includes('.') ? partsOf(third, first, second) : partsOf(third, second, first)
  }
  const [, day, month, year] = text.match(DAY_FIRST) ?? []
  const [, monthBefore, dayAfter, yearAfter] = text.match(MONTH_FIRST) ?? []
  const number = monthOf(month ?? monthBefore ?? '')
  return number === 0 ? undefined : { year: year ?? yearAfter ?? '', month: number, day: Number(day ?? dayAfter) }
}

const partsOf = (year: string, month: string, day: string): WrittenDay => ({
  year,
  month: Number(month),
  day: Number(day),
})

/** The number of a month by its English name or the beginning of that; 0 for any other text. */
function monthOf(name: string): number {
  const full = new Date(Date.UTC(2026, MONTHS.indexOf(name.slice(0, 3).toLowerCase()), 1))
  if (Number.isNaN(full.getTime()) || !MONTHS.includes(name.slice(0, 3).toLowerCase())) return 0
  const whole = new Intl.DateTimeFormat('en-GB', { month: 'long', timeZone: 'UTC' }).format(full).toLowerCase()
  return whole.startsWith(name.toLowerCase()) || name.toLowerCase() === 'sept' ? full.getUTCMonth() + 1 : 0
}

/** A day as ISO 8601 has it; undefined for a day that does not exist. */
export function isoDay(year: number, month: number, day: number): string | undefined {
  const written = `${`${year}`.padStart(4, '0')}-${`${month}`.padStart(2, '0')}-${`${day}`.padStart(2, '0')}`
  const at = new Date(`${written}T00:00:00Z`)
  return year < 1 || Number.isNaN(at.getTime()) || !at.toISOString().startsWith(written) ? undefined : written
}

export interface WrittenTime {
  /** Hours, minutes and seconds with colons between. */
  time: string
  /** The figures after the seconds. */
  fraction: string
  /** `Z`, or hours and minutes with a sign; undefined without one. */
  offset: string | undefined
  /** The text before the time. */
  before: string
}

const CLOCK = '(\\d{1,2}):(\\d{2})(?::(\\d{2})(?:[.,](\\d{1,9}))?)?(?:\\s*([ap])\\.?m\\.?)?'
const WHOLE_HOUR = '(\\d{1,2})\\s*([ap])\\.?m\\.?'
const TIME = new RegExp(`(?:^|[T,\\s])\\s*(?:${CLOCK}|${WHOLE_HOUR})\\s*(Z|UTC|[+-]\\d{2}:?\\d{2})?$`, 'i')

/** Parses the time at the end of a text; undefined without a time, 'none' for a time that does not exist. */
export function writtenTime(text: string): WrittenTime | 'none' | undefined {
  const match = text.match(TIME)
  if (!match) return undefined
  const [whole, hourText, minute = '00', second = '00', fraction = '', half, onlyHour, onlyHalf, offset] = match
  const period = (half ?? onlyHalf)?.toLowerCase()
  let hour = Number(hourText ?? onlyHour)
  if (period !== undefined) {
    if (hour < 1 || hour > 12) return 'none'
    hour = (hour % 12) + (period === 'p' ? 12 : 0)
  }
  if (hour > 23 || Number(minute) > 59 || Number(second) > 59) return 'none'
  return {
    time: `${`${hour}`.padStart(2, '0')}:${minute}:${second}`,
    fraction,
    offset: offset
      ?.toUpperCase()
      .replace('UTC', 'Z')
      .replace(/(\d{2})(\d{2})$/, '$1:$2'),
    before: text.slice(0, text.length - whole.length).trim(),
  }
}
