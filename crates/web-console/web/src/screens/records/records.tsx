// The records of a class, and the list of classes with visible records.

import { useQueries, useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { options, page, queries } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import type { Instance } from '../../api/shapes.ts'
import { query, read } from '../../generic/address.ts'
import { Reading, sayError } from '../../generic/failure.tsx'
import { Link, useGo, useHere } from '../../generic/go.tsx'
import { Lines } from '../../generic/lines.tsx'
import { List } from '../../generic/list.tsx'
import type { Resource } from '../../generic/resource.ts'
import { useSettings } from '../../generic/settings.ts'
import { describedBy } from '../../generic/shape.ts'
import { type Action, Menu } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { part } from '../../kit/part.tsx'
import { say } from '../../kit/toasts.tsx'
import { NotFound } from '../../shared/not-found.tsx'
import { CLASSES, listOf, mayRecords, type OpenClass, useClass } from '../../shared/records/class.ts'
import { relatedClass } from '../../shared/records/shape.ts'
import { labelOf, t } from '../../texts.ts'
import { exportRecords } from './export.ts'
import { over } from './related-columns.ts'

const Bulk = part(() => import('./bulk.tsx').then((module) => module.Bulk))

export function Records() {
  const { alias } = useParams({ strict: false }) as { alias: string }
  const { openClass, isMissing, reading } = useClass(alias)
  const related = useRelated(openClass)
  if (isMissing) return <NotFound />
  if (!openClass || !related.resource) return <Reading of={[...reading, ...related.reading]} title={t('records')} />
  return (
    <List
      key={alias}
      resource={related.resource}
      moreColumns={related.more}
      canCreate={mayRecords(openClass.instance, 'create')}
      actions={<More openClass={openClass} resource={related.resource} />}
      bulk={(selected, clear, matching) => (
        <Bulk openClass={openClass} selected={selected} matching={matching} onClose={clear} />
      )}
    />
  )
}

/** Filters over a relation. The columns of its class are read when one of them is chosen or in the address. */
function useRelated(openClass: OpenClass | undefined) {
  const { search } = useHere()
  const [wanted, setWanted] = useState<string[]>([])
  const named = [...new URLSearchParams(search).keys()].flatMap((name) => name.match(/^(\w+)\./)?.[1] ?? [])
  const relations = (openClass?.columns ?? []).filter((column) => relatedClass(column) !== undefined)
  const shownRelations = relations.filter(({ alias }) => wanted.includes(alias) || named.includes(alias))
  const described = useQueries({
    queries: shownRelations.map((column) => options(listOf(relatedClass(column) ?? 0))),
    combine: (answers) => ({
      data: answers.every(({ isPending }) => !isPending) ? answers.map(({ data }) => data) : undefined,
      reading: answers,
    }),
  })
  const key = shownRelations.map(({ alias }) => alias).join()
  // biome-ignore lint/correctness/useExhaustiveDependencies: `key` says which columns are shown
  const resource = useMemo(() => {
    if (!openClass || !described.data) return undefined
    return shownRelations.length === 0 ? openClass.resource : over(openClass.resource, shownRelations, described.data)
  }, [openClass, key, described.data])
  const more = relations
    .filter((column) => !shownRelations.includes(column))
    .map((column) => ({
      id: `${column.alias}.`,
      text: t('records.over', { name: labelOf(column) }),
      load: async () => {
        await queries.fetchQuery(options(listOf(relatedClass(column) ?? 0)))
        setWanted((before) => [...before, column.alias])
      },
    }))
  return { resource, more, reading: described.reading }
}

/** The maximum number of pinned classes. */
const PINS = 20

/** Import, export, forms, and deleted records. */
function More({ openClass, resource }: { openClass: OpenClass; resource: Resource }) {
  const go = useGo()
  const { search } = useHere()
  const { alias, name, id, instance } = openClass
  // Those of the list, over relations, too.
  const columns = useQuery(describedBy(resource)).data?.list?.columns ?? openClass.columns
  const canCreate = mayRecords(instance, 'create')
  const forms = useQuery({
    ...page('/api/object-class-forms/', `object_class=${id}&type=create&is_enabled=true&ordering=name&limit=25`),
    enabled: canCreate,
  })
  const send = async (format: 'csv' | 'ndjson') => {
    const state = read(search, columns)
    if (state.unknown.length > 0) return say(t('records.export.gone'), { isError: true })
    return exportRecords(id, alias, format, query(state)).catch(sayError)
  }
  const route = `/records/${alias}`
  const [{ pinned }, change] = useSettings()
  const isPinned = pinned.some((one) => one.alias === alias)
  const pin = () =>
    change((now) => {
      const others = now.pinned.filter((one) => one.alias !== alias)
      return { pinned: isPinned ? others : [...others, { alias, name }] }
    })
  const actions: Action[] = [
    ...(forms.data?.results ?? []).map((form) => ({
      id: `form ${form.uuid}`,
      text: t('records.new-by', { form: `${form.name}` }),
      run: () => go(`${route}/new?form=${form.uuid}`),
    })),
    ...(canCreate || mayRecords(instance, 'edit')
      ? [{ id: 'import', text: t('import'), run: () => go(`${route}/import`) }]
      : []),
    {
      id: 'pin',
      text: isPinned ? t('records.unpin') : t('records.pin'),
      isDisabled: !isPinned && pinned.length >= PINS,
      run: pin,
    },
    { id: 'csv', text: t('records.export.csv'), run: () => void send('csv') },
    { id: 'ndjson', text: t('records.export.ndjson'), run: () => void send('ndjson') },
    ...(mayRecords(instance, 'delete')
      ? [{ id: 'deleted', text: t('records.deleted'), run: () => go(`${route}/deleted`) }]
      : []),
  ]
  return <Menu isOffered label={t('records.more', { name })} actions={actions} />
}

const Name = ({ instance }: { instance: Instance }) => (
  <Link to={`/records/${instance.alias}`}>{`${instance.name}`}</Link>
)

/** Leads on from a list of classes that is empty. */
const Declare = () =>
  session()?.permissions?.object_classes?.create === true && (
    <Link className={css.button} to="/admin/classes/new">
      {t('create-one', { one: t('object-classes.one') })}
    </Link>
  )

/** All visible classes, with a search. */
export function AllClasses() {
  return (
    <Lines
      path={CLASSES}
      title="records.all-classes"
      columns={['name', 'description', 'num_of_records']}
      search="name__icontains"
      views={{ name: Name }}
      nothing={<Declare />}
    />
  )
}
