// The table of a list: plain HTML, without components of the kit in its rows.

import { type ChangeEvent, memo, type Ref } from 'react'
import type { Column, Instance } from '../api/shapes.ts'
import css from '../kit/controls.module.css'
import { Icon } from '../kit/icons.tsx'
import { Value } from '../kit/values.tsx'
import { labelOf, t } from '../texts.ts'
import { type ListState, sortedBy } from './address.ts'
import look from './generic.module.css'
import { Link } from './go.tsx'
import type { Selection } from './list-selection.ts'
import { keyOf, type Resource, routeOf } from './resource.ts'

interface ListTableProps {
  resource: Resource
  title: string
  /** The visible columns, in their order. */
  columns: Column[]
  rows: Instance[]
  state: ListState
  selection: Selection
  tableRef: Ref<HTMLTableElement>
  onChange: (state: ListState) => void
}

export function ListTable({ resource, title, columns, rows, state, selection, tableRef, onChange }: ListTableProps) {
  const { selected } = selection
  const wholePage = {
    checked: rows.every((row) => selected.has(keyOf(resource, row))),
    onChange: ({ target }: ChangeEvent<HTMLInputElement>) => selection.replace(target.checked ? rows : []),
  }
  return (
    <>
      <div className={look.heads}>
        <Order columns={columns} state={state} onChange={onChange} />
        <label className={css.check}>
          <input type="checkbox" {...wholePage} />
          {t('select-page')}
        </label>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
      <div className={look.frame} tabIndex={0} role="region" aria-label={title}>
        <table ref={tableRef} className={look.table} data-density={state.density}>
          <thead>
            <tr>
              <th className={look.box}>
                <input type="checkbox" aria-label={t('select-page')} {...wholePage} />
              </th>
              {columns.map((column) => (
                <Head
                  key={column.alias}
                  column={column}
                  state={state}
                  onSort={() => onChange(sortedBy(state, column.alias))}
                />
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((instance) => {
              const key = keyOf(resource, instance)
              return (
                <Row
                  key={key}
                  id={key}
                  resource={resource}
                  instance={instance}
                  columns={columns}
                  isSelected={selected.has(key)}
                  onSelect={selection.toggle}
                />
              )
            })}
          </tbody>
        </table>
      </div>
    </>
  )
}

function Head({ column, state, onSort }: { column: Column; state: ListState; onSort: () => void }) {
  const direction =
    state.ordering === column.alias ? 'ascending' : state.ordering === `-${column.alias}` ? 'descending' : undefined
  const isNumber = column.type === 'integer' || column.type === 'decimal'
  return (
    <th scope="col" aria-sort={direction} className={isNumber ? look.number : undefined}>
      {column.sort_ok ? (
        <button type="button" className={look.sort} onClick={onSort}>
          {labelOf(column)}
          {direction && <Icon name={direction === 'ascending' ? 'arrow-up' : 'arrow-down'} />}
        </button>
      ) : (
        labelOf(column)
      )}
    </th>
  )
}

/** The order as a choice of its own: rows that are cards have no heads. */
function Order({
  columns,
  state,
  onChange,
}: {
  columns: Column[]
  state: ListState
  onChange: (state: ListState) => void
}) {
  const sortable = columns.filter((column) => column.sort_ok)
  if (sortable.length === 0) return null
  return (
    <label className={look.order}>
      {t('order')}
      <select
        className={css.input}
        value={state.ordering}
        onChange={({ target }) => onChange({ ...state, ordering: target.value, offset: 0 })}
      >
        <option value="">{t('order.none')}</option>
        {sortable.flatMap((column) => [
          <option key={column.alias} value={column.alias}>
            {t('order.up', { name: labelOf(column) })}
          </option>,
          <option key={`-${column.alias}`} value={`-${column.alias}`}>
            {t('order.down', { name: labelOf(column) })}
          </option>,
        ])}
      </select>
    </label>
  )
}

/** True if a box was ticked with Shift. A browser reports the change of a box with its click. */
const isShifted = (event: Event): boolean => event instanceof MouseEvent && event.shiftKey

interface RowProps {
  id: string
  resource: Resource
  instance: Instance
  columns: Column[]
  isSelected: boolean
  onSelect: (key: string, instance: Instance, isRange: boolean) => void
}

const Row = memo(
  function Row({ id, resource, instance, columns, isSelected, onSelect }: RowProps) {
    const name = resource.label(instance)
    return (
      <tr data-key={id} aria-selected={isSelected} className={isSelected ? look.chosen : undefined}>
        <td className={look.box}>
          <input
            type="checkbox"
            aria-label={t('select-one', { name })}
            checked={isSelected}
            // The browser would mark the text in between.
            onMouseDown={(event) => event.shiftKey && event.preventDefault()}
            onChange={({ nativeEvent }) => onSelect(id, instance, isShifted(nativeEvent))}
          />
        </td>
        {columns.map((column, n) => {
          const value = (
            <Value
              type={column.type}
              values={column.values}
              label={instance._meta?.labels?.[column.alias]}
              value={instance[column.alias]}
              isShort
            />
          )
          if (n > 0) {
            return (
              <td
                key={column.alias}
                data-label={labelOf(column)}
                className={column.type === 'integer' || column.type === 'decimal' ? look.number : undefined}
              >
                {value}
              </td>
            )
          }
          const text = instance[column.alias]
          return (
            <th key={column.alias} scope="row">
              <Link to={routeOf(resource, id)}>
                {text === null || text === '' || text === undefined ? name : value}
              </Link>
            </th>
          )
        })}
      </tr>
    )
  },
  (before, now) =>
    before.instance === now.instance &&
    before.isSelected === now.isSelected &&
    before.columns.map(({ alias }) => alias).join() === now.columns.map(({ alias }) => alias).join(),
)
