// The contents of the console's UI configurations: `menu`, `home`, `list-{class id}` and `record-{class id}`.
// `docs/reference/console.md` documents them. Parts that are not understood are not shown.

import type { Fields, Json } from '../api/shapes.ts'
import { type Reading, reading, type Written } from '../api/written.ts'

const NAME = 100
const MOST_FILTERS = 2000
/** A name that the API gives to a class or a field. */
const isAlias = (text: string) => /^\w+$/.test(text)

/** Either the records of a class, or another place. */
export interface MenuItem {
  class?: string | undefined
  link?: string | undefined
  label?: string | undefined
}

export interface Menu {
  sections: { title: string; items: MenuItem[] }[]
}

/** A path below `/console/`, or an address that begins with `https://`. */
export function isLink(text: string): boolean {
  if (/[\s\\]/.test(text)) return false
  const url = URL.parse(text, 'https://here.invalid')
  if (text.startsWith('/console/')) return url?.pathname.startsWith('/console/') === true
  return text.startsWith('https://') && url !== null && url.username === '' && url.password === ''
}

function menuItem(item: Written): MenuItem | undefined {
  if (!item.has('class', 'link', 'label')) return undefined
  const read = {
    class: item.at('class').text(NAME, isAlias),
    link: item.at('link').text(MOST_FILTERS, isLink),
    label: item.at('label').text(NAME),
  }
  const isWhole = read.class !== undefined ? read.link === undefined : read.link !== undefined && read.label
  return isWhole ? read : item.flaw()
}

export const readMenu = (content: Json | undefined): Reading<Menu> =>
  reading<Menu>(content, ['sections'], { sections: [] }, (top) => ({
    sections: top.at('sections').each((section) => {
      if (!section.has('title', 'items')) return undefined
      return { title: section.at('title').text(NAME) ?? '', items: section.at('items').each(menuItem) }
    }),
  }))

/** The selection of records of a class, and its columns, as in the address of a list. */
export interface Selection {
  filters: string
  ordering: string
  columns: string[]
}

const MEMBERS = ['filters', 'ordering', 'columns']
const NOT_FILTERS = ['ordering', 'limit', 'offset', 'fields', '.columns']

function selection(from: Written): Selection {
  const isOfFilters = (text: string) => [...new URLSearchParams(text).keys()].every((one) => !NOT_FILTERS.includes(one))
  return {
    filters: from.at('filters').text(MOST_FILTERS, isOfFilters) ?? '',
    ordering: from.at('ordering').text(NAME, (text) => isAlias(text.replace(/^-/, ''))) ?? '',
    columns: from.at('columns').each((column) => column.text(NAME, isAlias)),
  }
}

/** A selection as the address of a list has it. */
export function searchOf({ filters, ordering, columns }: Selection): string {
  const parameters = new URLSearchParams(filters)
  if (ordering) parameters.set('ordering', ordering)
  if (columns.length > 0) parameters.set('.columns', columns.join(','))
  const text = `${parameters}`
  return text && `?${text}`
}

export function selectionOf(search: string): Selection {
  const parameters = new URLSearchParams(search)
  const ordering = parameters.get('ordering') ?? ''
  const columns = parameters.get('.columns')?.split(',').filter(Boolean) ?? []
  for (const name of NOT_FILTERS) parameters.delete(name)
  return { filters: `${parameters}`, ordering, columns }
}

/** A custom component with its input. */
export interface Component {
  component: number
  parameters?: Fields | undefined
}

/** A component beside a record, with the fields whose values it gets. */
export interface RecordComponent extends Component {
  fields?: string[] | undefined
}

function component(from: Written): Component | undefined {
  const id = from.at('component').whole(1, Number.MAX_SAFE_INTEGER)
  const parameters = from.at('parameters').object()
  return id === undefined ? undefined : { component: id, ...(parameters && { parameters }) }
}

export type Block =
  | { kind: 'count'; title: string; class: string; filters: string }
  | ({ kind: 'list'; title: string; class: string; limit: number } & Selection)
  | ({ kind: 'component'; title: string } & Component)

export interface HomePage {
  blocks: Block[]
}

export const MOST_ROWS = 25
const ROWS = 5

function block(from: Written): Block | undefined {
  const kind = from.at('kind').text(NAME)
  const title = from.at('title').text(NAME) ?? ''
  const className = from.at('class').text(NAME, isAlias)
  if (kind === 'component' && from.has('kind', 'title', 'component', 'parameters')) {
    const read = component(from)
    return read ? { kind, title, ...read } : from.flaw()
  }
  if (kind === 'count' && from.has('kind', 'title', 'class', 'filters') && className)
    return { kind, title, class: className, filters: selection(from).filters }
  if (kind === 'list' && from.has('kind', 'title', 'class', 'limit', ...MEMBERS) && className)
    return { kind, title, class: className, limit: from.at('limit').whole(1, MOST_ROWS) ?? ROWS, ...selection(from) }
  return from.flaw()
}

export const readHome = (content: Json | undefined): Reading<HomePage> =>
  reading<HomePage>(content, ['blocks'], { blocks: [] }, (top) => ({ blocks: top.at('blocks').each(block) }))

export interface View extends Selection {
  name: string
}

export interface Views {
  views: View[]
}

export const readViews = (content: Json | undefined): Reading<Views> =>
  reading<Views>(content, ['views'], { views: [] }, (top) => {
    const names = new Set<string>()
    return {
      views: top.at('views').each((view) => {
        if (!view.has('name', ...MEMBERS)) return undefined
        const name = view.at('name').text(NAME)
        if (!name || names.has(name)) return view.flaw()
        names.add(name)
        return { name, ...selection(view) }
      }),
    }
  })

export interface RecordPage {
  sections: { title: string; fields: string[] }[]
  summary?: RecordComponent | undefined
}

export const readRecord = (content: Json | undefined): Reading<RecordPage> =>
  reading<RecordPage>(content, ['sections', 'summary'], { sections: [] }, (top) => {
    const titles = new Set<string>()
    const fields = new Set<string>()
    /** Each field and each title is unique. */
    const once = (known: Set<string>, from: Written, text: string | undefined) => {
      if (text === undefined) return undefined
      if (known.has(text)) return from.flaw()
      known.add(text)
      return text
    }
    const sections = top.at('sections').each((section) => {
      if (!section.has('title', 'fields')) return undefined
      const title = once(titles, section.at('title'), section.at('title').text(NAME))
      if (!title) return section.flaw()
      const named = section.at('fields').each((field) => once(fields, field, field.text(NAME, isAlias)))
      return { title, fields: named }
    })
    const summary = top.at('summary')
    if (summary.value === undefined || !summary.has('component', 'parameters', 'fields')) return { sections }
    const read = component(summary)
    if (!read) return { sections, summary: summary.flaw() }
    const told = new Set<string>()
    const names = summary.at('fields').each((field) => once(told, field, field.text(NAME, isAlias)))
    return { sections, summary: { ...read, ...(names.length > 0 && { fields: names }) } }
  })

/** The stored form: with a version, without empty members. */
export function written(content: object): Fields {
  const filled = (value: Json | undefined): Json | undefined => {
    if (Array.isArray(value)) return value.map((item) => filled(item) ?? null)
    if (typeof value !== 'object' || value === null) return value === '' ? undefined : value
    const members = Object.entries(value).flatMap(([name, member]): [string, Json][] => {
      const kept = name === 'parameters' ? member : filled(member)
      return kept === undefined || (Array.isArray(kept) && kept.length === 0) ? [] : [[name, kept]]
    })
    return Object.fromEntries(members)
  }
  return { version: 1, ...(filled(content as Fields) as Fields) }
}
