// One record: its values, people, tasks, documents, related records, and history.

import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useEffect, useMemo } from 'react'
import { instance as instanceQuery } from '../../api/query.ts'
import { Refusal } from '../../api/refusal.ts'
import type { Field, Instance, Json } from '../../api/shapes.ts'
import { valuesOf } from '../../generic/component-record.ts'
import { Create, Detail } from '../../generic/detail.tsx'
import { FailurePage, Reading } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import { Link, useGo, useHere } from '../../generic/go.tsx'
import { NotUnderstood } from '../../generic/not-understood.tsx'
import { type PanelProps, type Parts, pathOf, type Resource, routeOf } from '../../generic/resource.ts'
import { instanceOf } from '../../generic/shape.ts'
import { useConfiguration } from '../../generic/ui-config.ts'
import { readRecord } from '../../generic/ui-contents.ts'
import { part } from '../../kit/part.tsx'
import { OneForm } from '../../shared/forms/one-form.tsx'
import { NotFound } from '../../shared/not-found.tsx'
import { useOpened } from '../../shared/recent-records.ts'
import { mayRecords, type OpenClass, RECORDS, useClass } from '../../shared/records/class.ts'
import { arranged } from '../../shared/records/sections.ts'
import { t } from '../../texts.ts'
import { Documents } from './documents.tsx'
import { FileInput, Files } from './files.tsx'
import { History } from './history.tsx'
import { People } from './people.tsx'
import { Related } from './related.tsx'
import { Tasks } from './tasks.tsx'

const ComponentFrame = part(() => import('../../generic/component-frame.tsx').then((module) => module.ComponentFrame))

/** A link to a related record of any class. */
function RelatedRecord({ value, instance, field }: { value: Json; instance: Instance; field: Field }) {
  if (value === null) return <span className={generic.none}>{t('none')}</span>
  const label = instance._meta?.labels?.[field.alias]
  if (label === null) return t('records.hidden', { id: `${value}` })
  const text = typeof label === 'string' ? label : `#${value}`
  return <Link to={`/records/-/${value}`}>{text}</Link>
}

/** The component that the interface shows for a record. */
function Summary({ instance }: PanelProps) {
  const { content } = useConfiguration(`record-${instance.object_class}`, readRecord)
  if (!content.summary) return null
  const { component, parameters = {}, fields = [] } = content.summary
  return (
    <ComponentFrame
      component={component}
      use="object_class_summary_form"
      parameters={parameters}
      record={Number(instance.id)}
      fields={valuesOf(instance, fields)}
    />
  )
}

function partsOf({ fields }: OpenClass): Parts {
  const files = fields.filter(({ type }) => type === 'file')
  const relations = fields.filter(({ type }) => type === 'relation')
  return {
    inputs: Object.fromEntries(files.map(({ alias }) => [alias, FileInput])),
    views: {
      ...Object.fromEntries(files.map(({ alias }) => [alias, Files])),
      ...Object.fromEntries(relations.map(({ alias }) => [alias, RelatedRecord])),
    },
    panels: [Summary, Tasks, Documents, Related, People],
    side: [History],
  }
}

/** Notes that the record was opened. */
function Noted({ resource, id }: { resource: Resource; id: string }) {
  const { data } = useQuery(instanceOf(pathOf(resource, id), resource.shape))
  useOpened(routeOf(resource, id), data && resource.label(data.instance))
  return null
}

export function OneRecord() {
  const { alias, id } = useParams({ strict: false }) as { alias: string; id: string }
  const { openClass, isMissing, reading } = useClass(alias)
  const { content, flaws, isKnown } = useConfiguration(`record-${openClass?.id}`, readRecord, openClass !== undefined)
  const parts = useMemo(() => openClass && partsOf(openClass), [openClass])
  const resource = useMemo(() => openClass && arranged(openClass.resource, content), [openClass, content])
  if (isMissing || !/^\d+$/.test(id)) return <NotFound />
  if (!openClass || !parts || !resource) return <Reading of={reading} title={t('records')} />
  if (!isKnown) return null
  return (
    <>
      <NotUnderstood
        component={`record-${openClass.id}`}
        flaws={flaws}
        to={`/admin/interface/records?class=${openClass.id}`}
      />
      <Detail key={id} resource={resource} parts={parts} id={id} />
      <Noted resource={resource} id={id} />
    </>
  )
}

export function NewRecord() {
  const { alias } = useParams({ strict: false }) as { alias: string }
  const go = useGo()
  const { search } = useHere()
  const form = new URLSearchParams(search).get('form')
  const { openClass, isMissing, reading } = useClass(alias)
  const parts = useMemo(() => openClass && partsOf(openClass), [openClass])
  if (isMissing) return <NotFound />
  if (!openClass || !parts) return <Reading of={reading} title={t('records')} />
  if (!mayRecords(openClass.instance, 'create')) {
    const asked = { method: 'POST', path: openClass.resource.path }
    return <FailurePage error={new Refusal(403, {}, null, null, asked)} />
  }
  if (form) {
    const { route } = openClass.resource
    const above = (
      <nav className={generic.trail} aria-label={t('trail')}>
        <Link to={route}>{openClass.name}</Link>
      </nav>
    )
    const place = { above, onMade: ({ id }: Instance) => go(`${route}/${id}`), onCancel: () => go(route) }
    return <OneForm key={form} uuid={form} place={place} />
  }
  const given = openClass.fields.filter((field) => field.default !== undefined && field.default !== null)
  const initial = Object.fromEntries(given.map((field) => [field.alias, field.default as Json]))
  return <Create key={alias} resource={openClass.resource} parts={parts} initial={initial} />
}

/** A record of an unknown class. The address with its class replaces this one. */
export function AnyRecord() {
  const { id } = useParams({ strict: false }) as { id: string }
  const go = useGo()
  const read = useQuery(instanceQuery(`${RECORDS}${id}/`))
  const { openClass, reading } = useClass(read.data ? Number(read.data.instance.object_class) : undefined)
  const alias = openClass?.alias
  // biome-ignore lint/correctness/useExhaustiveDependencies: `go` is a new function in each drawing
  useEffect(() => {
    if (alias) go(`/records/${alias}/${id}`, true)
  }, [alias, id])
  return <Reading of={[read, ...reading]} title={t('records')} />
}
