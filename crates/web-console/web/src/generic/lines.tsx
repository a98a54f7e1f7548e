// A list whose lines cannot be opened: events, newest first.

import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useMemo } from 'react'
import { options, page } from '../api/query.ts'
import { type Key, t } from '../texts.ts'
import { type ListState, query, read, write } from './address.ts'
import { Reading } from './failure.tsx'
import { Filters } from './filters.tsx'
import look from './generic.module.css'
import { useGo, useHere } from './go.tsx'
import { type LineLook, LineTable } from './line-table.tsx'
import { Pages, useLastPage } from './pages-bar.tsx'
import { SearchBox } from './search-box.tsx'

export interface LinesProps extends LineLook {
  path: string
  title: Key
  columns: string[]
  search?: string | undefined
  /** The links below an empty list. */
  nothing?: ReactNode
  /** The content above the list. */
  children?: ReactNode
}

export function Lines({ path, title, columns: aliases, search: parameter, nothing, children, ...shape }: LinesProps) {
  const go = useGo()
  const { path: here, search } = useHere()
  const described = useQuery(options(path))
  const columns = useMemo(() => described.data?.list?.columns ?? [], [described.data])
  const state = useMemo(() => read(search, columns), [search, columns])
  const linesQuery = useQuery({ ...page(path, query(state)), enabled: described.isSuccess })
  const set = (next: ListState) => go(here + write(next))
  useLastPage(linesQuery.data, state, (next) => go(here + write(next), true))
  const visible = aliases.flatMap((alias) => columns.find((column) => column.alias === alias) ?? [])
  return (
    <>
      <header className={look.head}>
        <h1 tabIndex={-1}>{t(title)}</h1>
        {parameter && <SearchBox state={state} parameter={parameter} columns={columns} onChange={set} />}
      </header>
      <div className={look.tools}>
        <Filters state={state} columns={columns} onChange={set} />
      </div>
      {children}
      <Reading of={[described, linesQuery]} />
      {linesQuery.data?.results.length === 0 && state.offset === 0 && (
        <div className={look.nothing}>
          <p>{state.filters.length > 0 ? t('nothing-matches') : t('nothing-yet')}</p>
          {state.filters.length === 0 && nothing}
        </div>
      )}
      {linesQuery.data && linesQuery.data.results.length > 0 && (
        <LineTable title={t(title)} columns={visible} lines={linesQuery.data.results} {...shape} />
      )}
      {linesQuery.data && (
        <Pages
          page={linesQuery.data}
          state={state}
          next={page(path, query({ ...state, offset: state.offset + state.limit }))}
          onChange={set}
        />
      )}
    </>
  )
}
