// What happened to one instance, newest first, a page at a time.

import { useQuery } from '@tanstack/react-query'
import { type ComponentType, type ReactNode, useState } from 'react'
import { options, page } from '../api/query.ts'
import type { Instance, Json } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { Value } from '../kit/values.tsx'
import { type Key, labelOf, t } from '../texts.ts'
import { Failure } from './failure.tsx'
import look from './generic.module.css'

const SIZE = 25

export interface RecentProps {
  title: Key
  path: string
  columns: string[]
  nothing: Key
  /** The field that tells lines apart. */
  line?: string
  views?: { [alias: string]: ComponentType<{ value: Json; instance: Instance }> }
  actions?: (line: Instance) => ReactNode
}

export function Recent({ title, path, columns: wanted, nothing, line: key = 'id', views, actions }: RecentProps) {
  const [offset, setOffset] = useState(0)
  const described = useQuery(options(path))
  const shown = useQuery(page(path, `limit=${SIZE}&offset=${offset}`))
  const columns = wanted.flatMap(
    (alias) => described.data?.list?.columns.find((column) => column.alias === alias) ?? [],
  )
  const lines = shown.data?.results ?? []
  return (
    <section className={look.section}>
      <h2>{t(title)}</h2>
      {shown.error && <Failure error={shown.error} />}
      {shown.data && lines.length === 0 && <p className={look.none}>{t(nothing)}</p>}
      {lines.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
        <div className={look.frame} tabIndex={0} role="region" aria-label={t(title)}>
          <table className={look.table}>
            <thead>
              <tr>
                {columns.map((column) => (
                  <th key={column.alias} scope="col">
                    {labelOf(column)}
                  </th>
                ))}
                {actions && <td />}
              </tr>
            </thead>
            <tbody>
              {lines.map((line) => (
                <tr key={`${line[key]}`}>
                  {columns.map((column) => {
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
      {(shown.data?.next || offset > 0) && (
        <div className={css.actions}>
          <Button isDisabled={offset === 0} onPress={() => setOffset(offset - SIZE)}>
            {t('previous-page')}
          </Button>
          <Button isDisabled={!shown.data?.next} onPress={() => setOffset(offset + SIZE)}>
            {t('next-page')}
          </Button>
        </div>
      )}
    </section>
  )
}
