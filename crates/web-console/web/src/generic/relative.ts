// Filters that differ by reader and day: `me` among people, and the last days. Addresses and views contain them
// unchanged. Queries contain the API's filters.

import type { Column } from '../api/shapes.ts'

/** The predicate of the last days, whose value is their number. The API does not have it. */
export const LAST = 'last'
export const ME = 'me'

export interface Reader {
  id: number | undefined
  zone: string
}

let reader: Reader = { id: undefined, zone: 'UTC' }

/** Sets the reader and their time zone. */
export function readBy(now: Reader) {
  reader = now
}

export const isDay = ({ type }: Column) => type === 'date' || type === 'datetime'
export const isPeople = ({ type, autocomplete }: Column) =>
  type === 'user' || autocomplete?.startsWith('/api/users/') === true

/** The predicates of a column: those of the API, and the relative ones of the console. */
export const predicatesOf = (column: Column): string[] =>
  isDay(column) && column.predicates.includes('gte') && column.predicates.includes('lte')
    ? [...column.predicates, LAST]
    : column.predicates

/** A predicate that inverts another one, as the API names it. */
const EXCLUDE = 'exclude'
export const isExcluding = (predicate: string): boolean => predicate === EXCLUDE || predicate.endsWith(`__${EXCLUDE}`)
/** The predicate that another one turns round, or itself. */
export const plainOf = (predicate: string): string =>
  predicate === EXCLUDE ? 'exact' : predicate.replace(`__${EXCLUDE}`, '')

/** The most common exclusions. An address may contain others. */
const EXCLUDES_OFFERED = [EXCLUDE, `in__${EXCLUDE}`, `icontains__${EXCLUDE}`]
const BY_SIZE = ['gt', 'gte', 'lt', 'lte', 'range']

const isOfIds = ({ type, autocomplete }: Column) => type === 'relation' || autocomplete !== undefined

/** The predicates to choose from. Ids have an order that means nothing to people. */
export const offeredBy = (column: Column): string[] =>
  predicatesOf(column).filter((predicate) =>
    isExcluding(predicate) ? EXCLUDES_OFFERED.includes(predicate) : !(isOfIds(column) && BY_SIZE.includes(predicate)),
  )

/** True if a value is a list with commas between its items. */
export const isMany = ({ type }: Column, predicate: string) => {
  const plain = plainOf(predicate)
  return plain === 'in' || (plain === 'exact' && type === 'set')
}

const parts = (at: number, timeZone: string) =>
  Object.fromEntries(
    new Intl.DateTimeFormat('en-CA', {
      timeZone,
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      hourCycle: 'h23',
    })
      .formatToParts(at)
      .map(({ type, value }) => [type, value]),
  )

/** The day in a zone, some days later or before. */
export function dayIn(zone: string, at: number, days = 0): string {
  const { year, month, day } = parts(at, zone)
  return new Date(Date.UTC(Number(year), Number(month) - 1, Number(day) + days)).toISOString().slice(0, 10)
}

/** The time at which a day begins in a time zone. */
export function beginOf(day: string, zone: string): string {
  const midnight = Date.parse(`${day}T00:00:00Z`)
  let at = midnight
  // The second time with the offset of the day itself, should the first be that of a neighbour.
  for (let n = 0; n < 2; n++) {
    const { year, month, day: its, hour, minute, second } = parts(at, zone)
    at += midnight - Date.parse(`${year}-${month}-${its}T${hour}:${minute}:${second}Z`)
  }
  return new Date(at).toISOString()
}

/** The filters of the API for one filter of the console, as pairs of predicate and value. */
export function absolute(
  column: Column,
  predicate: string,
  value: string,
  now = Date.now(),
  { id, zone } = reader,
): [string, string][] {
  if (predicate === LAST) {
    const first = dayIn(zone, now, -Number(value))
    if (column.type === 'date')
      return [
        ['gte', first],
        ['lte', dayIn(zone, now)],
      ]
    return [
      ['gte', beginOf(first, zone)],
      ['lt', beginOf(dayIn(zone, now, 1), zone)],
    ]
  }
  if (!isPeople(column) || id === undefined) return [[predicate, value]]
  const people = value.split(',').map((one) => (one === ME ? `${id}` : one))
  return [[predicate, [...new Set(people)].join(',')]]
}
