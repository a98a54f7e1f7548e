// Reads a file that is to be imported: CSV, an object per line, or a JSON document.

import { integerOf, parseJson, type ReadNumber, writeJson } from '../../api/json.ts'
import type { Fields, Json } from '../../api/shapes.ts'
import { guarded, parseCsv, writeCsv } from './csv.ts'

export const SEPARATORS = [',', ';', '\t', '|'] as const

/** The reasons to refuse a row before its values are read. */
export type RowFlaw = { flaw: 'cells'; cells: number; columns: number } | { flaw: 'quote' } | { flaw: 'object' }

export interface Row {
  /** Its line, or its place in a list of JSON; counted from 1. */
  place: number
  /** A value for each column, in CSV a text. Undefined if the row has no cell: the field stays as it is. */
  cells: (Json | undefined)[]
  flaw?: RowFlaw
}

/** The reasons to refuse a file. */
export type FileFlaw = { flaw: 'quote'; line: number } | { flaw: 'json' } | { flaw: 'columns' } | { flaw: 'empty' }

export interface Table {
  format: 'csv' | 'lines' | 'json'
  separator: string
  columns: string[]
  rows: Row[]
  flaw?: FileFlaw
}

/** Twice the maximum number of fields of a class. */
const MOST_COLUMNS = 1000

const withoutMark = (text: string) => text.replace(/^\uFEFF/, '')

export const isJson = (text: string, name: string) =>
  /\.(ndjson|jsonl|json)$/i.test(name) || (!/\.(csv|tsv|txt)$/i.test(name) && /^\uFEFF?\s*[{[]/.test(text))

/** The most frequent separator of the first line. */
function separatorOf(text: string): string {
  const head = (text.match(/^[^\r\n]*/)?.[0] ?? '').replaceAll(/"[^"]*"/g, '')
  const counted = SEPARATORS.map((sign) => ({ sign, count: head.split(sign).length }))
  return counted.reduce((best, one) => (one.count > best.count ? one : best)).sign
}

/** Reads CSV. The separator is the chosen one, else that of a first line such as `sep=;`, else a guess. */
export function readCsv(text: string, chosen: string | undefined): Table {
  const whole = withoutMark(text)
  const [line, named] = whole.match(/^"?sep=([^"\r\n])"?(?:\r\n|\r|\n|$)/i) ?? ['']
  const remainder = whole.slice(line.length)
  const separator = chosen ?? named ?? separatorOf(remainder)
  const table: Table = { format: 'csv', separator, columns: [], rows: [] }
  const { rows, brokenAt } = parseCsv(remainder, separator, line === '' ? 1 : 2)
  const [head, ...others] = rows
  if (brokenAt !== undefined) return { ...table, flaw: { flaw: 'quote', line: brokenAt } }
  if (head === undefined) return { ...table, flaw: { flaw: 'empty' } }
  if (head.isMisquoted) return { ...table, flaw: { flaw: 'quote', line: head.line } }
  const columns = head.cells.map((name, n) => name.trim() || `${n + 1}`)
  const ofRow = ({ line, cells, isMisquoted }: (typeof rows)[number]): Row => {
    const last = cells.findLastIndex((cell) => cell.trim() !== '')
    const most = Math.max(columns.length, last + 1)
    const row: Row = { place: line, cells: cells.slice(0, most) }
    if (isMisquoted) row.flaw = { flaw: 'quote' }
    else if (most > columns.length) row.flaw = { flaw: 'cells', cells: most, columns: columns.length }
    return row
  }
  return { ...table, columns, rows: others.map(ofRow) }
}

const isObject = (value: Json): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Merges `fields`, in which exports have the values, with the other members. */
function flat(line: Fields): Fields {
  const { fields, _meta, ...rest } = line
  return fields !== undefined && isObject(fields)
    ? { ...rest, ...fields }
    : { ...rest, ...(fields !== undefined && { fields }) }
}

/** Reads a decimal as a text, so that all of its digits stay. */
const exactNumber: ReadNumber = (digits) => (/^-?\d+$/.test(digits) ? integerOf(digits) : digits)

function parsed(text: string): Json | undefined {
  try {
    return parseJson(text, exactNumber)
  } catch {
    return undefined
  }
}

interface Item {
  place: number
  text: string
  value: Json | undefined
}

/** Reads an object per line, a list of objects, or one object over several lines. */
export function readJson(text: string): Table {
  const whole = withoutMark(text).trim()
  if (whole === '') return { format: 'json', separator: '', columns: [], rows: [], flaw: { flaw: 'empty' } }
  const first = whole.startsWith('[') ? undefined : parsed(whole.match(/^[^\r\n]*/)?.[0] ?? '')
  const value = first === undefined ? parsed(whole) : undefined
  if (value !== undefined) {
    const items = Array.isArray(value) ? value : [value]
    return table(
      'json',
      items.map((one, n) => ({ place: n + 1, text: writeJson(one), value: one })),
    )
  }
  if (whole.startsWith('[')) return { format: 'json', separator: '', columns: [], rows: [], flaw: { flaw: 'json' } }
  const lines = withoutMark(text).split(/\r\n|\r|\n/)
  const written = lines.map((line, n) => ({ place: n + 1, text: line })).filter(({ text: line }) => line.trim() !== '')
  return table(
    'lines',
    written.map((line) => ({ ...line, value: parsed(line.text) })),
  )
}

function table(format: 'lines' | 'json', items: Item[]): Table {
  const objects = items.map(({ value }) => (value !== undefined && isObject(value) ? flat(value) : undefined))
  const names = new Set<string>()
  for (const one of objects) {
    for (const name of Object.keys(one ?? {})) names.add(name)
    if (names.size > MOST_COLUMNS) return { format, separator: '', columns: [], rows: [], flaw: { flaw: 'columns' } }
  }
  const columns = [...names]
  const rows = items.map(({ place, text }, n): Row => {
    const one = objects[n]
    return one === undefined
      ? { place, cells: [text], flaw: { flaw: 'object' } }
      : { place, cells: columns.map((name) => (Object.hasOwn(one, name) ? one[name] : undefined)) }
  })
  return { format, separator: '', columns, rows }
}

/** Writes rows in the format of their file, each with its error under `column`. */
export function written(
  { format, separator, columns }: Table,
  rows: { row: Row; error: string }[],
  column: string,
): Blob {
  if (format === 'csv') {
    const lines = rows.map(({ row: { cells }, error }) => {
      const texts = Array.from({ length: Math.max(columns.length, cells.length) }, (_, n) => `${cells[n] ?? ''}`)
      return [...texts.slice(0, columns.length), guarded(error), ...texts.slice(columns.length)]
    })
    return new Blob(['\uFEFF', writeCsv([[...columns, column], ...lines], separator)], { type: 'text/csv' })
  }
  const objects = rows.map(({ row: { cells, flaw }, error }) =>
    flaw
      ? { text: cells[0] ?? '', [column]: error }
      : { ...Object.fromEntries(columns.map((name, n) => [name, cells[n]])), [column]: error },
  )
  const text = format === 'json' ? writeJson(objects, 2) : objects.map((one) => writeJson(one)).join('\n')
  return new Blob([text, '\n'], { type: format === 'json' ? 'application/json' : 'application/x-ndjson' })
}
