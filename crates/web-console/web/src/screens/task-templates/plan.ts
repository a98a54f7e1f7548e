// The plan of a template: lines about due dates, expiry and reminders, with days if they are known.

import type { Fields, Json } from '../../api/shapes.ts'

export type Unit = 'days' | 'weeks' | 'months'
export interface Span {
  unit: Unit
  count: number
}

export interface Line {
  key:
    | 'asap'
    | 'due-date'
    | 'due-span'
    | 'before_due'
    | 'after_due'
    | 'before_expiry'
    | 'never'
    | 'expires-date'
    | 'expires-assigned'
    | 'expires-completed'
    | 'monthly'
    | 'annually'
    | 'renewed'
  span?: Span
  day?: Date
  values?: { [name: string]: number }
}

export interface Plan {
  lines: Line[]
  /** The end for a task that is created now. */
  due?: Date
  expires?: Date
}

const isUnit = (value: Json | undefined): value is Unit => value === 'days' || value === 'weeks' || value === 'months'

function spanOf(unit: Json | undefined, count: Json | undefined): Span | undefined {
  return isUnit(unit) && typeof count === 'number' ? { unit, count } : undefined
}

const daysIn = (year: number, month: number) => new Date(Date.UTC(year, month + 1, 0)).getUTCDate()

/** A day of a month; of a shorter month its last one. */
const dayOf = (year: number, month: number, day: number) => {
  const first = new Date(Date.UTC(year, month, 1))
  const last = daysIn(first.getUTCFullYear(), first.getUTCMonth())
  return new Date(Date.UTC(first.getUTCFullYear(), first.getUTCMonth(), Math.min(day, last), 23, 59, 59))
}

export function after(start: Date, { unit, count }: Span): Date {
  if (unit !== 'months') return new Date(start.getTime() + count * (unit === 'weeks' ? 7 : 1) * 86_400_000)
  const month = start.getUTCMonth() + count
  const day = dayOf(start.getUTCFullYear(), month, start.getUTCDate())
  day.setUTCHours(start.getUTCHours(), start.getUTCMinutes(), start.getUTCSeconds(), 0)
  return day
}

const endOf = (date: Json | undefined): Date | undefined =>
  typeof date === 'string' && date ? new Date(`${date}T23:59:59Z`) : undefined

/** The next such day, today included. */
function next(now: Date, day: number, month?: number): Date {
  const year = now.getUTCFullYear()
  const this_ = dayOf(year, month ?? now.getUTCMonth(), day)
  if (this_ >= now) return this_
  return month === undefined ? dayOf(year, now.getUTCMonth() + 1, day) : dayOf(year + 1, month, day)
}

function dueLine(values: Fields, now: Date): [Line, Date?] | undefined {
  switch (values.complete_by) {
    case 'asap':
      return [{ key: 'asap' }, now]
    case 'date': {
      const day = endOf(values.complete_by_date)
      return day && [{ key: 'due-date', day }, day]
    }
    case 'time_frame': {
      const span = spanOf(values.complete_by_time_unit, values.complete_by_time_value)
      return span && [{ key: 'due-span', span }, after(now, span)]
    }
  }
  return undefined
}

function expiryLine(values: Fields, now: Date): [Line, Date?] | undefined {
  const number = (alias: string) => (typeof values[alias] === 'number' ? values[alias] : undefined)
  switch (values.expiry ?? null) {
    case null:
      return [{ key: 'never' }]
    case 'date': {
      const day = endOf(values.expiry_date)
      return day && [{ key: 'expires-date', day }, day]
    }
    case 'time_frame': {
      const span = spanOf(values.expiry_time_unit, values.expiry_time_value)
      if (!span || !values.expiry_time_rel_to) return undefined
      if (values.expiry_time_rel_to === 'completed') return [{ key: 'expires-completed', span }]
      return [{ key: 'expires-assigned', span }, after(now, span)]
    }
    case 'monthly': {
      const day = number('expiry_day')
      return day === undefined ? undefined : [{ key: 'monthly', values: { day } }, next(now, day)]
    }
    case 'annually': {
      const day = number('expiry_periodic_day')
      const month = number('expiry_periodic_month')
      if (day === undefined || month === undefined) return undefined
      const when = next(now, day, month - 1)
      return [{ key: 'annually', day: when }, when]
    }
  }
  return undefined
}

export function planOf(values: Fields, now: Date): Plan {
  const [dueIs, due] = dueLine(values, now) ?? []
  const [expiryIs, expires] = expiryLine(values, now) ?? []
  const items = (list: Json | undefined) => (Array.isArray(list) ? list : []) as Fields[]
  const reminders = items(values.reminders).flatMap((one): Line[] => {
    const span = spanOf(one.time_unit, one.time_value)
    const key = one.notice_type
    return span && (key === 'before_due' || key === 'after_due' || key === 'before_expiry') ? [{ key, span }] : []
  })
  const renewals = items(values.renewals).map(
    (one): Line => ({
      key: 'renewed',
      span: spanOf(one.renewal_time_unit ?? 'days', one.renewal_time_value ?? 0) ?? { unit: 'days', count: 0 },
    }),
  )
  const ofExpiry =
    expiryIs?.key === 'never' ? [] : [...reminders.filter(({ key }) => key === 'before_expiry'), ...renewals]
  return {
    lines: [
      ...(dueIs ? [dueIs] : []),
      ...reminders.filter(({ key }) => key !== 'before_expiry'),
      ...(expiryIs ? [expiryIs] : []),
      ...ofExpiry,
    ],
    ...(due && { due }),
    ...(expires && { expires }),
  }
}

const NEEDED: { [alias: string]: [string, string] } = {
  complete_by_date: ['complete_by', 'date'],
  complete_by_time_value: ['complete_by', 'time_frame'],
  complete_by_time_unit: ['complete_by', 'time_frame'],
  expiry_date: ['expiry', 'date'],
  expiry_time_value: ['expiry', 'time_frame'],
  expiry_time_unit: ['expiry', 'time_frame'],
  expiry_time_rel_to: ['expiry', 'time_frame'],
  expiry_day: ['expiry', 'monthly'],
  expiry_periodic_day: ['expiry', 'annually'],
  expiry_periodic_month: ['expiry', 'annually'],
}

export const NEEDED_FIELDS = Object.keys(NEEDED)

/** Each choice needs fields of its own. */
export function counts(alias: string, values: Fields): boolean {
  if (alias === 'instructions') return false
  if (alias === 'renewals') return (values.expiry ?? null) !== null
  const [choice, value] = NEEDED[alias] ?? []
  return choice === undefined || values[choice] === value
}
