// One record: its values, its people, tasks, documents and relatives, and what became of it.

import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useEffect, useMemo } from 'react'
import { instance as instanceQuery } from '../../api/query.ts'
import { Refusal } from '../../api/refusal.ts'
import type { Field, Instance, Json } from '../../api/shapes.ts'
import { Create, Detail } from '../../generic/detail.tsx'
import { FailurePage, Reading } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import { Link, useGo, useHere } from '../../generic/go.tsx'
import type { Parts } from '../../generic/resource.ts'
import { t } from '../../texts.ts'
import { NotFound } from '../not-found.tsx'
import { mayRecords, type OpenClass, RECORDS, useClass } from './class.ts'
import { Documents } from './documents.tsx'
import { FileInput, Files } from './files.tsx'
import { FormPage } from './form.tsx'
import { History } from './history.tsx'
import { People } from './people.tsx'
import { Related } from './related.tsx'
import { Tasks } from './tasks.tsx'

/** A link to the record at which a relation points, whichever class it is of. */
function RelatedRecord({ value, instance, field }: { value: Json; instance: Instance; field: Field }) {
  if (value === null) return <span className={generic.none}>{t('none')}</span>
  const label = instance._meta?.labels?.[field.alias]
  if (label === null) return t('records.hidden', { id: `${value}` })
  const text = typeof label === 'string' ? label : `#${value}`
  return <Link to={`/records/-/${value}`}>{text}</Link>
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
    panels: [Tasks, Documents, Related, People],
    side: [History],
  }
}

export function OneRecord() {
  const { alias, id } = useParams({ strict: false }) as { alias: string; id: string }
  const { found, isMissing, reading } = useClass(alias)
  const parts = useMemo(() => found && partsOf(found), [found])
  if (isMissing || !/^\d+$/.test(id)) return <NotFound />
  if (!found || !parts) return <Reading of={reading} title={t('records')} />
  return <Detail key={id} resource={found.resource} parts={parts} id={id} />
}

export function NewRecord() {
  const { alias } = useParams({ strict: false }) as { alias: string }
  const { search } = useHere()
  const form = new URLSearchParams(search).get('form')
  const { found, isMissing, reading } = useClass(alias)
  const parts = useMemo(() => found && partsOf(found), [found])
  if (isMissing) return <NotFound />
  if (!found || !parts) return <Reading of={reading} title={t('records')} />
  if (!mayRecords(found.instance, 'create')) {
    const asked = { method: 'POST', path: found.resource.path }
    return <FailurePage error={new Refusal(403, {}, null, null, asked)} />
  }
  if (form) return <FormPage key={form} found={found} parts={parts} uuid={form} />
  const given = found.fields.filter((field) => field.default !== undefined && field.default !== null)
  const initial = Object.fromEntries(given.map((field) => [field.alias, field.default as Json]))
  return <Create key={alias} resource={found.resource} parts={parts} initial={initial} />
}

/** A record whose class is not known yet: the address of its class takes the place of this one. */
export function AnyRecord() {
  const { id } = useParams({ strict: false }) as { id: string }
  const go = useGo()
  const read = useQuery(instanceQuery(`${RECORDS}${id}/`))
  const { found, reading } = useClass(read.data ? Number(read.data.instance.object_class) : undefined)
  const alias = found?.alias
  // biome-ignore lint/correctness/useExhaustiveDependencies: going is made anew with each drawing
  useEffect(() => {
    if (alias) go(`/records/${alias}/${id}`, true)
  }, [alias, id])
  return <Reading of={[read, ...reading]} title={t('records')} />
}
