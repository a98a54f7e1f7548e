// The state of a list in its address, so that a view is a link: filters as the API takes them, `ordering`, `limit`,
// `offset`, and the console's own parameters, which begin with a dot.

import type { Column } from '../api/shapes.ts'
import { absolute, LAST, predicatesOf } from './relative.ts'

export interface Filter {
  column: Column
  predicate: string
  value: string
}

export interface ListState {
  filters: Filter[]
  /** Parameters that name no filter of this list, such as one of a field that is gone: shown, so that they can be dropped. */
  unknown: [string, string][]
  ordering: string
  /** An order that this list does not have, such as by a deleted field. It is shown, but not sent. */
  unknownOrdering?: string | undefined
  limit: number
  offset: number
  columns: string[] | undefined
  /** The density of the rows, if it differs from the user's setting. */
  density?: Density | undefined
}

export const DENSITIES = ['compact', 'comfortable'] as const
export type Density = (typeof DENSITIES)[number]

export const SIZES = [25, 50, 100]
const OWN = ['ordering', 'limit', 'offset', '.columns', '.density']

/** True if the list has this order; `{alias}__natural` compares digits as numbers. */
const isOrder = (ordering: string, columns: Column[]) =>
  ordering.split(',').every((part) => {
    const [alias, way] = part.replace(/^-/, '').split('__')
    const column = columns.find((one) => one.alias === alias)
    return column?.sort_ok === true && (way === undefined || way === 'natural')
  })

/** The state that an address names. Without columns the list is not described yet, and its order is taken as it is. */
export function read(search: string, columns: Column[]): ListState {
  const parameters = new URLSearchParams(search)
  const state: ListState = { filters: [], unknown: [], ordering: '', limit: 25, offset: 0, columns: undefined }
  for (const [name, value] of parameters) {
    if (OWN.includes(name)) continue
    const [alias = '', ...behind] = name.split('__')
    const predicate = behind.join('__') || 'exact'
    const column = columns.find((one) => one.alias === alias)
    const isKnown =
      column && predicatesOf(column).includes(predicate) && (predicate !== LAST || /^\d{1,5}$/.test(value))
    if (isKnown) state.filters.push({ column, predicate, value })
    else state.unknown.push([name, value])
  }
  const ordering = parameters.get('ordering') ?? ''
  if (columns.length === 0 || isOrder(ordering, columns)) state.ordering = ordering
  else if (ordering) state.unknownOrdering = ordering
  const limit = Number(parameters.get('limit'))
  state.limit = SIZES.includes(limit) ? limit : 25
  state.offset = Math.max(0, Math.floor(Number(parameters.get('offset')) || 0))
  state.columns = parameters.get('.columns')?.split(',').filter(Boolean)
  state.density = DENSITIES.find((one) => one === parameters.get('.density'))
  return state
}

const parameter = ({ alias }: Column, predicate: string) => (predicate === 'exact' ? alias : `${alias}__${predicate}`)

/** The parameters of the API's query, without incomplete filters. */
export function query(state: ListState, fixed?: { [name: string]: string }): string {
  const parameters = new URLSearchParams(fixed)
  for (const { column, predicate, value } of state.filters) {
    if (value === '') continue
    for (const [name, its] of absolute(column, predicate, value)) parameters.append(parameter(column, name), its)
  }
  if (state.ordering) parameters.set('ordering', state.ordering)
  parameters.set('limit', `${state.limit}`)
  if (state.offset) parameters.set('offset', `${state.offset}`)
  return `${parameters}`
}

/** The address of a state. */
export function write(state: ListState): string {
  const parameters = new URLSearchParams()
  for (const { column, predicate, value } of state.filters) parameters.append(parameter(column, predicate), value)
  for (const [name, value] of state.unknown) parameters.append(name, value)
  if (state.ordering) parameters.set('ordering', state.ordering)
  if (state.limit !== 25) parameters.set('limit', `${state.limit}`)
  if (state.offset) parameters.set('offset', `${state.offset}`)
  if (state.columns) parameters.set('.columns', state.columns.join(','))
  if (state.density) parameters.set('.density', state.density)
  const text = `${parameters}`
  return text && `?${text}`
}

/** The offset of the last page, if the requested page is beyond it, for example after a deletion of its rows. */
export function lastPage(
  page: { offset: number; results: unknown[]; filtered_count: number | null },
  offset: number,
  size: number,
): number | undefined {
  // Not by the page before, which is shown until this one is there.
  if (offset === 0 || page.offset !== offset || page.results.length > 0) return undefined
  const count = page.filtered_count ?? offset
  return Math.max(0, Math.min(Math.ceil(count / size) * size, offset) - size)
}

/** A filter begins at page one. */
export const withFilters = (state: ListState, filters: Filter[]): ListState => ({ ...state, filters, offset: 0 })

/** The state after a click on the head of a column: ascending, descending, then the default order. */
export function sortedBy(state: ListState, alias: string): ListState {
  const next = state.ordering === alias ? `-${alias}` : state.ordering === `-${alias}` ? '' : alias
  return { ...state, ordering: next, offset: 0 }
}

/** The predicate with which a filter of a column begins: the one that people mean most. */
export function usualPredicate(column: Column): string {
  const preferred = {
    string: 'icontains',
    text: 'icontains',
    email: 'icontains',
    url: 'icontains',
    date: 'gte',
    datetime: 'gte',
    enum: 'in',
    status: 'in',
    user: 'in',
    set: 'in',
  }
  const predicate = preferred[column.type as keyof typeof preferred] ?? 'exact'
  return column.predicates.includes(predicate) ? predicate : (column.predicates[0] ?? 'exact')
}

/** The parameters behind the `?`, for the router. A repeated parameter has all of its values. */
export function parseSearch(search: string): Record<string, string | string[]> {
  const parameters = new Map<string, string | string[]>()
  for (const [name, value] of new URLSearchParams(search)) {
    const before = parameters.get(name)
    parameters.set(name, before === undefined ? value : [before, value].flat())
  }
  return Object.fromEntries(parameters)
}

export function stringifySearch(search: Record<string, unknown>): string {
  const all = Object.entries(search).flatMap(([name, value]) => [value].flat().map((one) => [name, `${one}`]))
  const text = `${new URLSearchParams(all)}`
  return text && `?${text}`
}
