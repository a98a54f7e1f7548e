// The events of one instance, newest first, a page at a time.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { options, page } from '../api/query.ts'
import { type Key, t } from '../texts.ts'
import { Reading } from './failure.tsx'
import look from './generic.module.css'
import { type LineLook, LineTable } from './line-table.tsx'
import { Turn } from './turn.tsx'

const SIZE = 25

export interface RecentProps extends LineLook {
  title: Key
  path: string
  columns: string[]
  nothing: Key
}

export function Recent({ title, path, columns: wanted, nothing, ...shape }: RecentProps) {
  const [offset, setOffset] = useState(0)
  const described = useQuery(options(path))
  const query = (at: number) => page(path, `limit=${SIZE}&offset=${at}`)
  const eventsQuery = useQuery(query(offset))
  const columns = wanted.flatMap(
    (alias) => described.data?.list?.columns.find((column) => column.alias === alias) ?? [],
  )
  const lines = eventsQuery.data?.results ?? []
  return (
    <section className={look.section}>
      <h2>{t(title)}</h2>
      <Reading of={[eventsQuery]} />
      {eventsQuery.data && lines.length === 0 && <p className={look.none}>{t(nothing)}</p>}
      {lines.length > 0 && <LineTable title={t(title)} columns={columns} lines={lines} {...shape} />}
      <Turn page={eventsQuery.data} offset={offset} size={SIZE} query={query} onTurn={setOffset} />
    </section>
  )
}
