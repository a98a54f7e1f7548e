// The history of a record, newest first, a page at a time: the user, the program, and each old and new value.

import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import { page, queries } from '../../api/query.ts'
import { get } from '../../api/request.ts'
import type { Field, Fields, Instance, Json, Page } from '../../api/shapes.ts'
import { Reading } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import type { PanelProps } from '../../generic/resource.ts'
import { Button } from '../../kit/buttons.tsx'
import { Moment, Value } from '../../kit/values.tsx'
import { listOf, useClass } from '../../shared/records/class.ts'
import { relatedClass } from '../../shared/records/shape.ts'
import { named, t } from '../../texts.ts'
import { type Change, changesOf } from './event-changes.ts'
import { type Names, namesIn } from './known-names.ts'

const SIZE = 25
/** The number of older events that are read for their values. */
const LOOKED = 100
/** Within this an event is there after a change. */
const LATE = 2500

export function History({ instance, path }: PanelProps) {
  const all = `${path}history/`
  const { openClass } = useClass(Number(instance.object_class))
  const eventsQuery = useInfiniteQuery({
    queryKey: [all, 'pages'],
    queryFn: ({ pageParam, signal }) => get<Page>(`${all}?limit=${SIZE}&offset=${pageParam}`, signal),
    initialPageParam: 0,
    getNextPageParam: (last: Page) => (last.next ? last.offset + SIZE : undefined),
  })
  const state = `${instance.modified_at}`
  const before = useRef(state)
  useEffect(() => {
    if (before.current === state) return
    before.current = state
    const timer = setTimeout(() => void queries.invalidateQueries({ queryKey: [all] }), LATE)
    return () => clearTimeout(timer)
  }, [state, all])
  const events = eventsQuery.data?.pages.flatMap(({ results }) => results) ?? []
  const isFurther = (all: Change[][]) => all.flat().some((change) => change.isFurther)
  const eventChanges = changesOf(events, !eventsQuery.hasNextPage)
  // Older events contain the previous values of the last changes of this page. Some are read by their kind.
  const oldest = `${events.at(-1)?.event_datetime}`
  const older = useQuery({
    queryKey: [all, 'values', oldest],
    queryFn: ({ signal }) =>
      get<Page>(
        `${all}?${new URLSearchParams({ event_type__in: 'record_created,field_values_changed', event_datetime__lt: oldest, limit: `${LOOKED}` })}`,
        signal,
      ),
    enabled: isFurther(eventChanges),
  })
  const earlier = older.data && isFurther(eventChanges) ? older.data : undefined
  const changes = earlier ? changesOf([...events, ...earlier.results], !earlier.next) : eventChanges
  const fields = openClass?.fields ?? []
  const names = namesIn(instance, fields, events)
  return (
    <section className={generic.section}>
      <h2>{t('records.history')}</h2>
      <Reading of={[eventsQuery]} />
      {eventsQuery.data && events.length === 0 && <p className={generic.none}>{t('nothing-yet')}</p>}
      {events.length > 0 && (
        <ol className={generic.timeline}>
          {events.map((event, n) => (
            <li key={`${event.event_id}`}>
              <div>{named('event', `${event.event_type}`)}</div>
              <What changes={changes[n] ?? []} fields={fields} names={names} />
              <div className={generic.when}>
                <Moment value={`${event.event_datetime}`} />
                {` · ${who(event)}`}
              </div>
            </li>
          ))}
        </ol>
      )}
      {eventsQuery.hasNextPage && (
        <div>
          <Button isDisabled={eventsQuery.isFetchingNextPage} onPress={() => void eventsQuery.fetchNextPage()}>
            {t('records.history.older')}
          </Button>
        </div>
      )}
    </section>
  )
}

function who({ source_type, source_name, source_info, source_id }: Instance): string {
  const name = `${source_name || (source_id ? `#${source_id}` : '')}`
  if (source_type === 'mcp') return t('records.history.agent', { name, client: `${source_info || t('connectors')}` })
  if (source_type === 'user') return name
  return source_type === 'system' ? t('the-system') : name || named('event', `${source_type}`)
}

function What({ changes, ...context }: { changes: Change[]; fields: Field[]; names: Names }) {
  if (changes.length === 0) return null
  return (
    <ul className={generic.changes}>
      {changes.map((change) => (
        <li key={change.key}>
          <span className={generic.when}>{change.name}</span>{' '}
          {change.isFurther && <span className={generic.when}>{t('records.history.further')}</span>}
          {!isNothing(change.old) && (
            <>
              <del>
                <Told change={change} value={change.old ?? null} {...context} />
              </del>
              {' → '}
            </>
          )}
          <Told change={change} value={change.now} {...context} />
        </li>
      ))}
    </ul>
  )
}

const isNothing = (value: Json | undefined): value is null | undefined | '' =>
  value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0)

/** A formerly related record. A record without a name here is read to check whether the caller may view it. */
function Related({ id, field, names }: { id: number; field: Field | undefined; names: Names }) {
  const name = names.records.get(id)
  const classId = field && relatedClass(field)
  const asked = page(listOf(classId ?? 0), `id=${id}&fields=id&limit=1`)
  const { data } = useQuery({ ...asked, enabled: name === undefined && classId !== undefined && !names.hidden.has(id) })
  if (name === undefined && (data?.results.length ?? 0) === 0) return t('records.hidden', { id: `${id}` })
  return <Link to={`/records/-/${id}`}>{name ?? `#${id}`}</Link>
}

/** A value in an event. Texts of options come from the field of that name, if it exists. */
function Told({ change, value, fields, names }: { change: Change; value: Json; fields: Field[]; names: Names }) {
  if (isNothing(value)) return t('none')
  if (change.type === 'relation')
    return <Related id={Number(value)} field={fields.find(({ label }) => label === change.name)} names={names} />
  if (change.type === 'user') return names.people.get(Number(value)) ?? `#${value}`
  if (change.type === 'document') return t('records.history.files', { count: Array.isArray(value) ? value.length : 1 })
  const field = fields.find(({ label }) => label === change.name)
  const type = change.type === 'status' ? 'enum' : change.type
  if (Array.isArray(value)) {
    const texts = value.map((one) => field?.values?.find((choice) => choice.value === one)?.text ?? `${one}`)
    return texts.join(', ')
  }
  return <Value type={type} values={field?.values} value={value as Exclude<Json, Fields>} isShort />
}
