// The list of a resource. Its whole state is in its address.

import { type ReactNode, useState } from 'react'
import type { Column, Instance } from '../api/shapes.ts'
import { Button, Popup } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { Icon } from '../kit/icons.tsx'
import { part } from '../kit/part.tsx'
import { t } from '../texts.ts'
import type { ListState } from './address.ts'
import { Reading } from './failure.tsx'
import { Filters, type MoreColumns } from './filters.tsx'
import look from './generic.module.css'
import { Link } from './go.tsx'
import { Columns } from './list-columns.tsx'
import { useListShortcuts, useRowFocus } from './list-keys.ts'
import { type Selection, useSelection } from './list-selection.ts'
import { useListColumns, useListPage, useListState, useRememberedKeys } from './list-state.ts'
import { ListTable } from './list-table.tsx'
import { Pages, useLastPage } from './pages-bar.tsx'
import { may, oneOf, type Resource, titleOf } from './resource.ts'
import { SearchBox } from './search-box.tsx'

const Views = part(() => import('./views.tsx').then((module) => module.default))
const DeleteMany = part(() => import('./delete-many.tsx').then((module) => module.default))

/** All rows that match the filters: their number if it is known, and the parameters of their query. */
export interface Matching {
  count: number | null
  parameters: string
  /** True if the address has filters that the list does not have. The query then matches more than the user expects. */
  isTooMuch: boolean
}

export interface ListProps {
  resource: Resource
  /** Parameters that this list always has. */
  fixed?: { [name: string]: string }
  title?: string
  actions?: ReactNode
  /** Actions for the selected rows, beside their deletion. */
  bulk?: (selected: Instance[], clear: () => void, matching: Matching) => ReactNode
  moreColumns?: MoreColumns[] | undefined
  canCreate: boolean
}

export function List(props: ListProps) {
  const { resource, fixed, bulk, moreColumns, canCreate } = props
  const title = props.title ?? titleOf(resource)
  const { description, columns } = useListColumns(resource)
  const [state, setState] = useListState(columns)
  const { page, rows, parameters, nextPage } = useListPage(resource, state, fixed, description.isSuccess)
  const selection = useSelection(resource, rows, parameters)
  const { selected, clear } = selection
  const focus = useRowFocus(resource, rows)
  const [isChoosingView, setIsChoosingView] = useState(false)
  const [isAsking, setIsAsking] = useState(false)
  useLastPage(page.data, state, (next) => setState(next, true))
  useRememberedKeys(resource, page.data)
  const canDelete = mayDelete(resource, selection)
  const ask = () => setIsAsking(true)
  useListShortcuts({
    resource,
    focus,
    selection,
    canCreate,
    canDelete,
    onDelete: ask,
    onViews: () => setIsChoosingView(true),
  })
  const visible = visibleColumns(state.columns ?? resource.columns, columns)
  const isTooMuch = state.unknown.length > 0
  const matching = { count: page.data?.filtered_count ?? null, parameters, isTooMuch }
  return (
    <>
      <ListHead {...props} title={title} state={state} columns={columns} onChange={setState} />
      <div className={look.tools}>
        <Filters state={state} columns={columns} lines={rows} more={moreColumns ?? []} onChange={setState} />
        <div className={look.spacer} />
        <Popup label={t('views')} text={t('views')} isOpen={isChoosingView} onOpenChange={setIsChoosingView}>
          {(close) => <Views name={resource.route} shared={resource.sharedViews} onDone={close} />}
        </Popup>
        <Columns
          columns={columns.filter(({ alias, is_parameter }) => !is_parameter && !resource.filtersOnly?.includes(alias))}
          chosen={visible.map(({ alias }) => alias)}
          density={state.density}
          onChange={(change) => setState({ ...state, ...change })}
        />
      </div>
      {selected.size > 0 && (
        <SelectionBar selection={selection} canDelete={canDelete} onDelete={ask}>
          {bulk?.([...selected.values()], clear, matching)}
        </SelectionBar>
      )}
      <Reading of={[description, page]} />
      {page.data && rows.length === 0 && state.offset === 0 && (
        <Nothing resource={resource} state={state} onChange={setState} />
      )}
      {rows.length > 0 && (
        <ListTable
          resource={resource}
          title={title}
          columns={visible}
          rows={rows}
          state={state}
          selection={selection}
          tableRef={focus.tableRef}
          onChange={setState}
        />
      )}
      {page.data && (
        <Pages
          page={page.data}
          state={state}
          limit={description.data?.restrictions?.limit_items}
          next={nextPage}
          onChange={setState}
        />
      )}
      {isAsking && (
        <DeleteMany
          resource={resource}
          selected={[...selected.values()]}
          onClose={() => {
            setIsAsking(false)
            clear()
          }}
        />
      )}
    </>
  )
}

const mayDelete = ({ canDelete, canDeleteMany }: Resource, { selected }: Selection) =>
  canDelete !== false &&
  canDeleteMany !== false &&
  selected.size > 0 &&
  [...selected.values()].every((instance) => may(instance, 'delete'))

const visibleColumns = (aliases: string[], columns: Column[]) =>
  aliases.flatMap((alias) => columns.find((column) => column.alias === alias) ?? [])

interface ListHeadProps extends ListProps {
  title: string
  state: ListState
  columns: Column[]
  onChange: (state: ListState) => void
}

/** The title of a list, its search box and its actions. */
function ListHead({ resource, title, actions, canCreate, state, columns, onChange }: ListHeadProps) {
  return (
    <header className={look.head}>
      <h1 tabIndex={-1}>{title}</h1>
      {resource.search && <SearchBox state={state} parameter={resource.search} columns={columns} onChange={onChange} />}
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
  )
}

interface SelectionBarProps {
  selection: Selection
  canDelete: boolean
  onDelete: () => void
  /** Actions beside the deletion. */
  children: ReactNode
}

/** The number of selected rows, with the actions for them. */
function SelectionBar({ selection, canDelete, onDelete, children }: SelectionBarProps) {
  const count = t('selected', { count: selection.selected.size })
  return (
    <section className={look.selected} aria-label={count}>
      <span role="status">{count}</span>
      {children}
      {canDelete && (
        <Button look="danger" onPress={onDelete}>
          {t('delete')}
        </Button>
      )}
      <Button look="quiet" onPress={selection.clear}>
        {t('select-none')}
      </Button>
    </section>
  )
}

interface NothingProps {
  resource: Resource
  state: ListState
  onChange: (state: ListState) => void
}

/** The text of an empty list. It differs if filters exclude its rows. */
function Nothing({ resource, state, onChange }: NothingProps) {
  const isFiltered = state.filters.length > 0
  return (
    <div className={look.nothing}>
      <p>{isFiltered ? t('nothing-matches') : resource.nothing ? t(resource.nothing) : t('nothing-yet')}</p>
      {isFiltered && (
        <Button onPress={() => onChange({ ...state, filters: [], offset: 0 })}>{t('remove-all-filters')}</Button>
      )}
    </div>
  )
}
