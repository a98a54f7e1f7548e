// The records that point at a record, class by class.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { get } from '../../api/request.ts'
import type { Page } from '../../api/shapes.ts'
import generic from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import type { PanelProps } from '../../generic/resource.ts'
import { pageOf } from '../../generic/shape.ts'
import { Turn } from '../../generic/turn.tsx'
import { Value } from '../../kit/values.tsx'
import { useClass } from '../../shared/records/class.ts'
import { labelOf, t } from '../../texts.ts'
import look from './records.module.css'

const SIZE = 10
const COLUMNS = 5

/** At most this many relations point at a class. */
const MOST = 50

/** The classes of all children. Each request finds one class; the ranges on both sides of it are searched next. */
async function classesBelow(path: string, signal: AbortSignal): Promise<number[]> {
  const classIds: number[] = []
  const ranges = ['']
  while (ranges.length > 0 && classIds.length < MOST) {
    const bounds = ranges.pop() ?? ''
    const { results } = await get<Page>(`${path}?limit=1&fields=id${bounds}`, signal)
    const id = results[0]?.object_class
    if (typeof id !== 'number') continue
    classIds.push(id)
    ranges.push(`${bounds}&object_class__gt=${id}`, `${bounds}&object_class__lt=${id}`)
  }
  return classIds.toSorted((a, b) => a - b)
}

export function Related({ path }: PanelProps) {
  const below = `${path}children/`
  const { data } = useQuery({
    queryKey: [below, 'classes'],
    queryFn: ({ signal }) => classesBelow(below, signal),
  })
  if (!data || data.length === 0) return null
  return (
    <section className={generic.section}>
      <h2>{t('records.related')}</h2>
      {data.map((id) => (
        <OfClass key={id} id={id} path={below} />
      ))}
    </section>
  )
}

function OfClass({ id, path }: { id: number; path: string }) {
  const [offset, setOffset] = useState(0)
  const { openClass } = useClass(id)
  const resource = openClass && { ...openClass.resource, path }
  const query = (at: number) => pageOf(resource ?? NONE, `object_class=${id}&limit=${SIZE}&offset=${at}`)
  const { data } = useQuery({
    ...query(offset),
    enabled: resource !== undefined,
  })
  if (!openClass || !resource || !data) return null
  const columns = openClass.columns
    .filter(({ alias }) => resource.columns.includes(alias) && alias !== 'modified_at')
    .toSorted((a, b) => resource.columns.indexOf(a.alias) - resource.columns.indexOf(b.alias))
    .slice(0, COLUMNS)
  return (
    <div className={look.box}>
      <h3>{`${openClass.name} (${data.filtered_count ?? data.results.length})`}</h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
      <div className={generic.frame} tabIndex={0} role="region" aria-label={openClass.name}>
        <table className={generic.table}>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column.alias} scope="col">
                  {labelOf(column)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {data.results.map((record) => (
              <tr key={`${record.id}`}>
                {columns.map((column, n) =>
                  n === 0 ? (
                    <th key={column.alias} scope="row">
                      <Link to={`${resource.route}/${record.id}`}>{resource.label(record)}</Link>
                    </th>
                  ) : (
                    <td key={column.alias} data-label={labelOf(column)}>
                      <Value
                        type={column.type}
                        values={column.values}
                        label={record._meta?.labels?.[column.alias]}
                        value={record[column.alias]}
                        isShort
                      />
                    </td>
                  ),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Turn page={data} offset={offset} size={SIZE} query={query} onTurn={setOffset} />
    </div>
  )
}

const NONE = { path: '' } as Parameters<typeof pageOf>[0]
