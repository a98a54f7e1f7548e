// Days and times as people and programs write them.

/** The order of day and month where figures alone stand; a year of four figures may stand first in any order. */
export type DayOrder = 'dmy' | 'mdy'

export interface WrittenDay {
  /** Its figures, as they were written. */
  year: string
  month: number
  day: number
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const SEPARATOR = '[./,\\-\\s]+'
const FIGURES = new RegExp(`^(\\d{1,4})${SEPARATOR}(\\d{1,2})${SEPARATOR}(\\d{1,4})$`)
const DAY_FIRST = new RegExp(`^(\\d{1,2})${SEPARATOR}(\\p{L}{3,9})${SEPARATOR}(\\d{4}|\\d{2})$`, 'u')
const MONTH_FIRST = new RegExp(`^(\\p{L}{3,9})${SEPARATOR}(\\d{1,2})${SEPARATOR}(\\d{4}|\\d{2})$`, 'u')

/** The three parts of a day; undefined where a text has other ones. Whether there is such a day, `isoDay` tells. */
export function writtenDay(text: string, order: DayOrder): WrittenDay | undefined {
  const [, first, second, third] = text.match(FIGURES) ?? []
  if (first !== undefined && second !== undefined && third !== undefined) {
    if (first.length === 4) return third.length > 2 ? undefined : part(first, second, third)
    if (first.length > 2) return undefined
    // Nobody writes points between a month, a day and a year in this order.
    return order === 'mdy' && !text.includes('.') ? part(third, first, second) : part(third, second, first)
  }
  const [, day, month, year] = text.match(DAY_FIRST) ?? []
  const [, monthBefore, dayAfter, yearAfter] = text.match(MONTH_FIRST) ?? []
  const number = monthOf(month ?? monthBefore ?? '')
  return number === 0 ? undefined : { year: year ?? yearAfter ?? '', month: number, day: Number(day ?? dayAfter) }
}

const part = (year: string, month: string, day: string): WrittenDay => ({
  year,
  month: Number(month),
  day: Number(day),
})

/** By an English name or its beginning; 0 for none. */
function monthOf(name: string): number {
  const full = new Date(Date.UTC(2026, MONTHS.indexOf(name.slice(0, 3).toLowerCase()), 1))
  if (Number.isNaN(full.getTime()) || !MONTHS.includes(name.slice(0, 3).toLowerCase())) return 0
  const whole = new Intl.DateTimeFormat('en-GB', { month: 'long', timeZone: 'UTC' }).format(full).toLowerCase()
  return whole.startsWith(name.toLowerCase()) || name.toLowerCase() === 'sept' ? full.getUTCMonth() + 1 : 0
}

/** A day as ISO 8601 has it; undefined where the calendar has none such. */
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
  /** `Z`, or hours and minutes with a sign; undefined where none is written. */
  offset: string | undefined
  /** What stands before it. */
  before: string
}

const CLOCK = '(\\d{1,2}):(\\d{2})(?::(\\d{2})(?:[.,](\\d{1,9}))?)?(?:\\s*([ap])\\.?m\\.?)?'
const WHOLE_HOUR = '(\\d{1,2})\\s*([ap])\\.?m\\.?'
const TIME = new RegExp(`(?:^|[T,\\s])\\s*(?:${CLOCK}|${WHOLE_HOUR})\\s*(Z|UTC|[+-]\\d{2}:?\\d{2})?$`, 'i')

/** The time at the end of a text; undefined where there is none, 'none' where the clock has none such. */
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
