import type { ComponentType, ReactNode } from 'react'
import type { Column, Instance, Json } from '../api/shapes.ts'
import { Value } from '../kit/values.tsx'
import { labelOf, t } from '../texts.ts'
import look from './generic.module.css'

export interface LineLook {
  /** The field that identifies a line. */
  line?: string
  /** Views of fields that the type does not describe. */
  views?: { [alias: string]: ComponentType<{ value: Json; instance: Instance }> }
  /** The actions of a row. */
  actions?: (line: Instance) => ReactNode
}

/** Lines that cannot be opened, as a table. */
export function LineTable({
  title,
  columns,
  lines,
  line: key = 'id',
  views,
  actions,
}: LineLook & { title: string; columns: Column[]; lines: Instance[] }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <div className={look.frame} tabIndex={0} role="region" aria-label={title}>
      <table className={`${look.table} ${look.lines}`}>
        <thead>
          <tr>
            {columns.map((column) => (
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
  )
}
