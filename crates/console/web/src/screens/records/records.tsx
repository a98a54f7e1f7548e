// The records of a class, and the classes whose records may be seen.

import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { page } from '../../api/query.ts'
import type { Instance } from '../../api/shapes.ts'
import { query, read } from '../../generic/address.ts'
import { FailurePage } from '../../generic/failure.tsx'
import { Link, useGo, useHere } from '../../generic/go.tsx'
import { Lines } from '../../generic/lines.tsx'
import { List } from '../../generic/list.tsx'
import { type Action, Menu } from '../../kit/buttons.tsx'
import { say } from '../../kit/toasts.tsx'
import { t } from '../../texts.ts'
import { NotFound } from '../not-found.tsx'
import { CLASSES, mayRecords, type OpenClass, useClass } from './class.ts'
import { exportRecords } from './export.ts'

const Bulk = lazy(() => import('./bulk.tsx').then(({ Bulk: part }) => ({ default: part })))

export function Records() {
  const { alias } = useParams({ strict: false }) as { alias: string }
  const { found, isMissing, error } = useClass(alias)
  if (error) return <FailurePage error={error} />
  if (isMissing) return <NotFound />
  if (!found) return null
  return (
    <List
      key={alias}
      resource={found.resource}
      canCreate={mayRecords(found.instance, 'create')}
      actions={<More found={found} />}
      bulk={(selected, clear, matching) => (
        <Suspense>
          <Bulk found={found} selected={selected} matching={matching} onClose={clear} />
        </Suspense>
      )}
    />
  )
}

/** Import, export, forms, and what was deleted. */
function More({ found }: { found: OpenClass }) {
  const go = useGo()
  const { search } = useHere()
  const { alias, name, id, columns, instance } = found
  const canCreate = mayRecords(instance, 'create')
  const forms = useQuery({
    ...page('/api/object-class-forms/', `object_class=${id}&type=create&is_enabled=true&ordering=name&limit=25`),
    enabled: canCreate,
  })
  const send = (format: 'csv' | 'ndjson') =>
    exportRecords(id, alias, format, query(read(search, columns))).catch((error: Error) =>
      say(error.message === '0' ? t('failure.offline') : error.message),
    )
  const route = `/records/${alias}`
  const actions: Action[] = [
    ...(forms.data?.results ?? []).map((form) => ({
      id: `form ${form.uuid}`,
      text: t('records.new-by', { form: `${form.name}` }),
      run: () => go(`${route}/new?form=${form.uuid}`),
    })),
    ...(canCreate || mayRecords(instance, 'edit')
      ? [{ id: 'import', text: t('import'), run: () => go(`${route}/import`) }]
      : []),
    { id: 'csv', text: t('records.export.csv'), run: () => void send('csv') },
    { id: 'ndjson', text: t('records.export.ndjson'), run: () => void send('ndjson') },
    ...(mayRecords(instance, 'delete')
      ? [{ id: 'deleted', text: t('records.deleted'), run: () => go(`${route}/deleted`) }]
      : []),
  ]
  return <Menu label={t('records.more', { name })} actions={actions} />
}

const Name = ({ instance }: { instance: Instance }) => (
  <Link to={`/records/${instance.alias}`}>{`${instance.name}`}</Link>
)

/** All classes that the caller may see, to be searched. */
export function AllClasses() {
  return (
    <Lines
      path={CLASSES}
      title="records.all-classes"
      columns={['name', 'description', 'num_of_records']}
      search="name__icontains"
      views={{ name: Name }}
    />
  )
}
