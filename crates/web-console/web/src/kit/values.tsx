// The view of a value by its API type.

import { type ReactNode, useId } from 'react'
import { writeJson } from '../api/json.ts'
import type { Value as Choice, Json, Reference } from '../api/shapes.ts'
import { LANGUAGE, t } from '../texts.ts'
import css from './controls.module.css'

export interface Shown {
  type: string
  values?: Choice[] | undefined
  /** A text for an id, from `_meta.labels`. */
  label?: Json | undefined
  /** Lists show one line. */
  isShort?: boolean
}

let zone: string | undefined
let day = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: 'medium' })
let moment = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: 'medium', timeStyle: 'short' })

/** Shows dates and times in a time zone from now on. */
export function showIn(timezone: string) {
  if (zone === timezone) return
  zone = timezone
  moment = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: 'medium', timeStyle: 'short', timeZone: zone })
  day = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: 'medium', timeZone: 'UTC' })
}

export const isReference = (value: unknown): value is Reference =>
  typeof value === 'object' && value !== null && 'username' in value && 'first_name' in value

type Named = Pick<Reference, 'first_name' | 'last_name' | 'username'>

export function nameOf({ first_name, last_name, username }: Named): string {
  return `${first_name} ${last_name}`.trim() || username
}

export const dayText = (value: string) => day.format(new Date(`${value}T00:00:00Z`))

/** The end of a day, as the API writes a due day. It is the same day in every time zone. */
const END_OF_DAY = /^(\d{4}-\d\d-\d\d)T23:59:59\.999999Z$/

export function momentText(value: string): string {
  const [, whole] = END_OF_DAY.exec(value) ?? []
  return whole ? dayText(whole) : moment.format(new Date(value))
}

/**
 * A date and time for readers; exact and in UTC on hover, and on focus except in lists, where each row would be a stop.
 */
export function Moment({ value, isShort = false }: { value: string; isShort?: boolean }) {
  const id = useId()
  const exact = value.replace('T', ' ').replace(/Z$/, ' UTC')
  if (isShort)
    return (
      <time dateTime={value} title={exact}>
        {momentText(value)}
      </time>
    )
  return (
    <span className={css.moment}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what is seen on hover must be seen by keyboard */}
      <time dateTime={value} tabIndex={0} aria-describedby={id}>
        {momentText(value)}
      </time>
      <span id={id} role="tooltip" className={css.exact}>
        {exact}
      </span>
    </span>
  )
}

type Tone = 'ok' | 'warn' | 'danger' | 'accent'
const TONES: Record<string, Tone> = {
  active: 'ok',
  enabled: 'ok',
  completed: 'ok',
  approved: 'ok',
  done: 'ok',
  success: 'ok',
  delivered: 'ok',
  ok: 'ok',
  login_success: 'ok',
  imported: 'ok',
  installed: 'ok',
  invited: 'accent',
  open: 'accent',
  running: 'accent',
  in_approval: 'accent',
  queued: 'accent',
  processing: 'accent',
  pending: 'warn',
  locked: 'warn',
  expired: 'warn',
  rejected: 'danger',
  failed: 'danger',
  failure: 'danger',
  refused: 'danger',
}

export function Tag({ children, value }: { children: ReactNode; value?: string }) {
  return (
    <span className={`${css.tag} ${value && TONES[value] ? css.dot : ''}`} data-tone={value && TONES[value]}>
      {children}
    </span>
  )
}

const textOf = (value: Json, values?: Choice[]) => values?.find((choice) => choice.value === value)?.text ?? `${value}`
const isLink = (value: string) => /^https?:\/\//.test(value)

function items(value: Json[], shown: Shown): ReactNode {
  const labels = Array.isArray(shown.label) ? shown.label : []
  const texts = value.map((item, n) => (typeof labels[n] === 'string' ? labels[n] : inline(item, shown.values)))
  const most = shown.type === 'file' ? 1 : 3
  if (shown.isShort && texts.length > most)
    return `${texts.slice(0, most).join(', ')} ${t('and-more', { count: texts.length - most })}`
  return (
    <span className={css.tags}>
      {texts.map((text, n) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a list of texts, which may repeat
        <Tag key={n}>{text}</Tag>
      ))}
    </span>
  )
}

function inline(value: Json, values?: Choice[]): string {
  if (value === null) return ''
  if (isReference(value)) return nameOf(value as unknown as Reference)
  if (typeof value !== 'object') return textOf(value, values)
  if (Array.isArray(value)) return value.map((item) => inline(item, values)).join(', ')
  for (const name of ['text', 'label', 'name', 'value']) {
    if (typeof value[name] === 'string') return value[name]
  }
  return writeJson(value)
}

/** The label of an id: null if the caller may not view the object. Numbers that are not ids have no label. */
export function numberText(value: Json, label: Json | undefined): string {
  if (label === null) return t('hidden', { id: `${value}` })
  return typeof label === 'string' ? label : `${value}`
}

/** A value of the API, or nothing. */
export function Value({ value, ...options }: Shown & { value: Json | undefined }): ReactNode {
  if (value === null || value === undefined || value === '') return null
  if (isReference(value)) return nameOf(value as unknown as Reference)
  if (Array.isArray(value)) return value.length ? items(value, options) : null
  switch (options.type) {
    case 'datetime':
      return <Moment value={`${value}`} isShort={options.isShort ?? false} />
    case 'date':
      return <time dateTime={`${value}`}>{dayText(`${value}`)}</time>
    case 'boolean':
      return value ? t('yes') : t('no')
    case 'enum':
    case 'status':
      return <Tag value={`${value}`}>{textOf(value, options.values)}</Tag>
    case 'relation':
      return options.label === null ? t('records.hidden', { id: `${value}` }) : numberText(value, options.label)
    case 'integer':
      return numberText(value, options.label)
    case 'email':
      return options.isShort ? `${value}` : <a href={`mailto:${value}`}>{`${value}`}</a>
    case 'url':
      return isLink(`${value}`) && !options.isShort ? (
        <a href={`${value}`} target="_blank" rel="noopener noreferrer">{`${value}`}</a>
      ) : (
        `${value}`
      )
  }
  if (typeof value !== 'object') return typeof options.label === 'string' ? options.label : `${value}`
  if (options.isShort) return inline(value)
  return <pre className={css.json}>{writeJson(value, 2)}</pre>
}
