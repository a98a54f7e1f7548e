// The list of a resource: its whole state is its address. A plain table, whose rows hold no component of the kit.

import { useQuery } from '@tanstack/react-query'
import { type ChangeEvent, memo, type ReactNode, useEffect, useMemo, useRef, useState } from 'react'
import { useUndisturbed } from '../api/query.ts'
import type { Column, Instance } from '../api/shapes.ts'
import { Button, Popup } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { Icon } from '../kit/icons.tsx'
import { useShortcuts } from '../kit/keys.ts'
import { part } from '../kit/part.tsx'
import { Value } from '../kit/values.tsx'
import { type Key, labelOf, t } from '../texts.ts'
import { DENSITIES, type Density, type ListState, query, read, sortedBy, write } from './address.ts'
import { EDIT } from './editing.ts'
import { Reading } from './failure.tsx'
import { Filters, type MoreColumns } from './filters.tsx'
import look from './generic.module.css'
import { Link, useGo, useHere } from './go.tsx'
import { remember } from './neighbours.tsx'
import { Pages, useLastPage } from './pages-bar.tsx'
import { keyOf, may, oneOf, type Resource, routeOf, titleOf } from './resource.ts'
import { SearchBox } from './search-box.tsx'
import { describedBy, pageOf } from './shape.ts'

const Views = part(() => import('./views.tsx').then((found) => found.default))
const DeleteMany = part(() => import('./delete-many.tsx').then((found) => found.default))

const MOVES: [number, Key, string][] = [
  [-1, 'move-up', '↑'],
  [1, 'move-down', '↓'],
]

/** All that the filters leave: how many, if that is known, and the parameters that ask for them. */
export interface Matching {
  count: number | null
  parameters: string
  /** Whether the address names filters that the list does not have: more than what is meant would be found. */
  isTooMuch: boolean
}

export interface ListProps {
  resource: Resource
  /** Parameters that this list always has. */
  fixed?: { [name: string]: string }
  title?: string
  actions?: ReactNode
  /** What can be done with those that are selected, beside deleting them. */
  bulk?: (selected: Instance[], clear: () => void, matching: Matching) => ReactNode
  moreColumns?: MoreColumns[] | undefined
  canCreate: boolean
}

export function List({ resource, fixed, title, actions, bulk, moreColumns, canCreate }: ListProps) {
  const go = useGo()
  const { path: here, search } = useHere()
  const described = useQuery(describedBy(resource))
  const columns = useMemo(
    () =>
      (described.data?.list?.columns ?? []).map((column) =>
        resource.records?.includes(column.alias) ? { ...column, type: 'relation' } : column,
      ),
    [described.data, resource],
  )
  const state = useMemo(() => read(search, columns), [search, columns])
  const parameters = query(state, fixed)
  const shown = useQuery({ ...pageOf(resource, parameters), enabled: described.isSuccess })
  const set = (next: ListState) => go(here + write(next))
  const [selected, setSelected] = useState<Map<string, Instance>>(new Map())
  useEffect(() => {
    if (parameters) setSelected(new Map())
  }, [parameters])
  useLastPage(shown.data, state, (next) => go(here + write(next), true))
  useUndisturbed(selected.size > 0)
  const table = useRef<HTMLTableElement>(null)
  const results = shown.data?.results ?? []
  const [isChoosingView, setIsChoosingView] = useState(false)
  useEffect(() => {
    if (shown.data)
      remember(
        resource.route,
        shown.data.results.map((one) => keyOf(resource, one)),
      )
  }, [shown.data, resource])
  const focused = () => {
    const key = document.activeElement?.closest('tr')?.dataset.key
    return results.find((one) => keyOf(resource, one) === key)
  }
  const move = (step: number) => {
    const links = [...(table.current?.querySelectorAll<HTMLElement>('tbody th a') ?? [])]
    const at = links.findIndex((link) => link.closest('tr')?.contains(document.activeElement))
    links[Math.min(Math.max(at + step, 0), links.length - 1)]?.focus()
    return links.length > 0
  }
  /** The row that was selected or left last: from there a range goes. */
  const anchor = useRef<string | undefined>(undefined)
  /** Rows are drawn again only when they change: what they call reads the others here. */
  const rows = useRef(results)
  rows.current = results
  const select = (key: string, instance: Instance, isRange = false) => {
    const place = (one: string | undefined) => rows.current.findIndex((line) => keyOf(resource, line) === one)
    const [from = -1, to = -1] = [isRange ? place(anchor.current) : -1, place(key)].toSorted((a, b) => a - b)
    const range = from < 0 ? [instance] : rows.current.slice(from, to + 1)
    anchor.current = key
    setSelected((before) => {
      const next = new Map(before)
      const isTaken = next.has(key)
      for (const one of range) {
        if (isTaken) next.delete(keyOf(resource, one))
        else next.set(keyOf(resource, one), one)
      }
      return next
    })
  }
  const selectFocused = () => {
    const instance = focused()
    if (!instance) return false
    return select(keyOf(resource, instance), instance)
  }
  /** The selection takes in the row, and the one to which it goes. */
  const extend = (step: number) => {
    const from = focused()
    move(step)
    const both = [from, focused()].filter((one) => one !== undefined)
    setSelected((before) => both.reduce((all, one) => all.set(keyOf(resource, one), one), new Map(before)))
    return both.length > 0
  }
  const edit = () => {
    const instance = focused()
    if (!instance || !may(instance, 'edit')) return false
    return go(`${routeOf(resource, keyOf(resource, instance))}?${EDIT}`)
  }
  const canDelete =
    resource.canDelete !== false &&
    resource.canDeleteMany !== false &&
    selected.size > 0 &&
    [...selected.values()].every((one) => may(one, 'delete'))
  const [isAsking, setIsAsking] = useState(false)
  const chosen = t('selected', { count: selected.size })
  useShortcuts([
    ...(canDelete ? [{ text: `${chosen}: ${t('delete')}`, run: () => setIsAsking(true) }] : []),
    ...(selected.size > 0 ? [{ text: t('select-none'), run: () => setSelected(new Map()) }] : []),
    { keys: 'v', text: t('views'), run: () => setIsChoosingView(true) },
    ...['j', 'ArrowDown'].flatMap((keys) => [
      { keys, text: t('keys.next'), run: () => move(1) },
      { keys: `Shift+${keys}`, text: t('keys.extend-down'), run: () => extend(1) },
    ]),
    ...['k', 'ArrowUp'].flatMap((keys) => [
      { keys, text: t('keys.previous'), run: () => move(-1) },
      { keys: `Shift+${keys}`, text: t('keys.extend-up'), run: () => extend(-1) },
    ]),
    ...['x', 'Space'].map((keys) => ({ keys, text: t('keys.select'), run: selectFocused })),
    { keys: 'e', text: t('keys.edit'), run: edit },
    ...(canCreate
      ? [{ keys: 'c', text: t('create-one', { one: oneOf(resource) }), run: () => go(`${resource.route}/new`) }]
      : []),
  ])
  const visible = (state.columns ?? resource.columns).flatMap(
    (alias) => columns.find((column) => column.alias === alias) ?? [],
  )
  const isFiltered = state.filters.length > 0
  const wholePage = {
    checked: results.every((one) => selected.has(keyOf(resource, one))),
    onChange: ({ target }: ChangeEvent<HTMLInputElement>) =>
      setSelected(target.checked ? new Map(results.map((one) => [keyOf(resource, one), one])) : new Map()),
  }
  return (
    <>
      <header className={look.head}>
        <h1 tabIndex={-1}>{title ?? titleOf(resource)}</h1>
        {resource.search && <SearchBox state={state} parameter={resource.search} columns={columns} onChange={set} />}
        <div className={look.spacer} />
        {actions}
        {resource.beside && (
          <Link className={css.button} to={resource.beside.to}>
            {t(resource.beside.text)}
          </Link>
        )}
        {canCreate && (
          <Link className={`${css.button} ${css.primary}`} to={`${resource.route}/new`}>
            <Icon name="plus" />
            <span className={look.clipped}>{t('create-one', { one: oneOf(resource) })}</span>
          </Link>
        )}
      </header>
      <div className={look.tools}>
        <Filters state={state} columns={columns} lines={results} more={moreColumns ?? []} onChange={set} />
        <div className={look.spacer} />
        <Popup label={t('views')} text={t('views')} isOpen={isChoosingView} onOpenChange={setIsChoosingView}>
          {(close) => <Views name={resource.route} shared={resource.sharedViews} onDone={close} />}
        </Popup>
        <Columns
          columns={columns.filter(({ alias, is_parameter }) => !is_parameter && !resource.filtersOnly?.includes(alias))}
          chosen={visible.map(({ alias }) => alias)}
          density={state.density}
          onChange={(change) => set({ ...state, ...change })}
        />
      </div>
      {selected.size > 0 && (
        <section className={look.selected} aria-label={chosen}>
          <span role="status">{chosen}</span>
          {bulk?.([...selected.values()], () => setSelected(new Map()), {
            count: shown.data?.filtered_count ?? null,
            parameters,
            isTooMuch: state.unknown.length > 0,
          })}
          {canDelete && (
            <Button look="danger" onPress={() => setIsAsking(true)}>
              {t('delete')}
            </Button>
          )}
          <Button look="quiet" onPress={() => setSelected(new Map())}>
            {t('select-none')}
          </Button>
        </section>
      )}
      <Reading of={[described, shown]} />
      {shown.data && results.length === 0 && state.offset === 0 && (
        <div className={look.nothing}>
          <p>{isFiltered ? t('nothing-matches') : resource.nothing ? t(resource.nothing) : t('nothing-yet')}</p>
          {isFiltered && (
            <Button onPress={() => set({ ...state, filters: [], offset: 0 })}>{t('remove-all-filters')}</Button>
          )}
        </div>
      )}
      {results.length > 0 && (
        <div className={look.heads}>
          <Order columns={visible} state={state} onChange={set} />
          <label className={css.check}>
            <input type="checkbox" {...wholePage} />
            {t('select-page')}
          </label>
        </div>
      )}
      {results.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
        <div className={look.frame} tabIndex={0} role="region" aria-label={title ?? titleOf(resource)}>
          <table ref={table} className={look.table} data-density={state.density}>
            <thead>
              <tr>
                <th className={look.box}>
                  <input type="checkbox" aria-label={t('select-page')} {...wholePage} />
                </th>
                {visible.map((column) => (
                  <Head
                    key={column.alias}
                    column={column}
                    state={state}
                    onSort={() => set(sortedBy(state, column.alias))}
                  />
                ))}
              </tr>
            </thead>
            <tbody>
              {results.map((instance) => {
                const key = keyOf(resource, instance)
                return (
                  <Row
                    key={key}
                    id={key}
                    resource={resource}
                    instance={instance}
                    columns={visible}
                    isSelected={selected.has(key)}
                    onSelect={select}
                  />
                )
              })}
            </tbody>
          </table>
        </div>
      )}
      {shown.data && (
        <Pages
          page={shown.data}
          state={state}
          limit={described.data?.restrictions?.limit_items}
          next={pageOf(resource, query({ ...state, offset: state.offset + state.limit }, fixed))}
          onChange={set}
        />
      )}
      {isAsking && (
        <DeleteMany
          resource={resource}
          selected={[...selected.values()]}
          onClose={() => {
            setIsAsking(false)
            setSelected(new Map())
          }}
        />
      )}
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

/** Whether a box was ticked with Shift: a browser tells the change of a box by the click on it. */
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

/** Which columns are shown, in which order, and how close the rows stand. */
function Columns({
  columns,
  chosen,
  density,
  onChange,
}: {
  columns: Column[]
  chosen: string[]
  density: Density | undefined
  onChange: (change: { columns?: string[]; density?: Density | undefined }) => void
}) {
  const choose = (to: string[]) => onChange({ columns: to })
  const all = [
    ...chosen.flatMap((alias) => columns.find((column) => column.alias === alias) ?? []),
    ...columns.filter(({ alias }) => !chosen.includes(alias)),
  ]
  return (
    <Popup label={t('columns')} icon="columns-3">
      {() => (
        <>
          <ul className={look.columns}>
            {all.map((column) => {
              const at = chosen.indexOf(column.alias)
              return (
                <li key={column.alias}>
                  <label className={css.check}>
                    <input
                      type="checkbox"
                      checked={at >= 0}
                      disabled={at >= 0 && chosen.length === 1}
                      onChange={(event) =>
                        choose(
                          event.target.checked
                            ? [...chosen, column.alias]
                            : chosen.filter((alias) => alias !== column.alias),
                        )
                      }
                    />
                    {labelOf(column)}
                  </label>
                  {at >= 0 && (
                    <span className={look.moves}>
                      {MOVES.map(([step, text, sign]) => (
                        <button
                          key={text}
                          type="button"
                          className={css.remove}
                          aria-label={t(text, { name: labelOf(column) })}
                          disabled={at + step < 0 || at + step >= chosen.length}
                          onClick={() => choose(chosen.toSpliced(at, 1).toSpliced(at + step, 0, column.alias))}
                        >
                          {sign}
                        </button>
                      ))}
                    </span>
                  )}
                </li>
              )
            })}
          </ul>
          <fieldset className={look.density}>
            <legend>{t('look.density')}</legend>
            {[undefined, ...DENSITIES].map((one) => (
              <label key={one ?? ''} className={css.check}>
                <input
                  type="radio"
                  name="density"
                  checked={density === one}
                  onChange={() => onChange({ density: one })}
                />
                {t(one ? `look.${one}` : 'look.mine')}
              </label>
            ))}
          </fieldset>
        </>
      )}
    </Popup>
  )
}
