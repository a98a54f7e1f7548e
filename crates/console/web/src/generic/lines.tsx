// A list whose lines cannot be opened: what happened, newest first.

import { useQuery } from '@tanstack/react-query'
import { type ComponentType, type ReactNode, useMemo } from 'react'
import { options, page } from '../api/query.ts'
import type { Instance, Json } from '../api/shapes.ts'
import { Value } from '../kit/values.tsx'
import { type Key, labelOf, t } from '../texts.ts'
import { type ListState, query, read, write } from './address.ts'
import { Failure } from './failure.tsx'
import { Filters } from './filters.tsx'
import look from './generic.module.css'
import { useGo, useHere } from './go.tsx'
import { Pages } from './pages-bar.tsx'
import { SearchBox } from './search-box.tsx'

export interface LinesProps {
  path: string
  title: Key
  columns: string[]
  search?: string | undefined
  /** The field that tells lines apart. */
  line?: string
  /** What can be done with a line. */
  actions?: (line: Instance) => ReactNode
  /** What stands above the list. */
  children?: ReactNode
  views?: { [alias: string]: ComponentType<{ value: Json; instance: Instance }> }
}

export function Lines(props: LinesProps) {
  const { path, title, columns: wanted, search: parameter, line: key = 'id', actions, children, views } = props
  const go = useGo()
  const { path: here, search } = useHere()
  const described = useQuery(options(path))
  const columns = useMemo(() => described.data?.list?.columns ?? [], [described.data])
  const state = useMemo(() => read(search, columns), [search, columns])
  const shown = useQuery({ ...page(path, query(state)), enabled: described.isSuccess })
  const set = (next: ListState) => go(here + write(next))
  const visible = wanted.flatMap((alias) => columns.find((column) => column.alias === alias) ?? [])
  const error = described.error ?? shown.error
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
      {error && <Failure error={error} onRetry={() => void shown.refetch()} />}
      {shown.data?.results.length === 0 && (
        <p className={look.nothing}>{state.filters.length > 0 ? t('nothing-matches') : t('nothing-yet')}</p>
      )}
      {(shown.data?.results.length ?? 0) > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
        <div className={look.frame} tabIndex={0} role="region" aria-label={t(title)}>
          <table className={`${look.table} ${look.lines}`}>
            <thead>
              <tr>
                {visible.map((column) => (
                  <th key={column.alias} scope="col">
                    {labelOf(column)}
                  </th>
                ))}
                {actions && (
                  <th scope="col">
                    <span className="hidden">{t('actions')}</span>
                  </th>
                )}
              </tr>
            </thead>
            <tbody>
              {shown.data?.results.map((line) => (
                <tr key={`${line[key]}`}>
                  {visible.map((column) => {
                    const View = views?.[column.alias]
                    const value = line[column.alias] ?? null
                    return (
                      <td key={column.alias} data-label={labelOf(column)}>
                        {View ? (
                          <View value={value} instance={line} />
                        ) : (
                          <Value type={column.type} values={column.values} value={value} isShort />
                        )}
                      </td>
                    )
                  })}
                  {actions && <td>{actions(line)}</td>}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {shown.data && <Pages page={shown.data} state={state} onChange={set} />}
    </>
  )
}
