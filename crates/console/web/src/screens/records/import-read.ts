// What a file holds that is to be imported: a table of texts, or an object a line.

import Papa from 'papaparse'
import type { Fields, Json } from '../../api/shapes.ts'

export const ENCODINGS = ['utf-8', 'utf-16le', 'utf-16be', 'windows-1252', 'iso-8859-2', 'windows-1251'] as const
export type Encoding = (typeof ENCODINGS)[number]
export const SEPARATORS = [',', ';', '\t', '|'] as const

/** By the mark at the beginning; without one UTF-8, unless that cannot be. */
export function encodingOf(content: Uint8Array<ArrayBuffer>): Encoding {
  const [first, second] = content
  if (first === 0xff && second === 0xfe) return 'utf-16le'
  if (first === 0xfe && second === 0xff) return 'utf-16be'
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(content)
    return 'utf-8'
  } catch {
    return 'windows-1252'
  }
}

export const textOf = (content: Uint8Array<ArrayBuffer>, encoding: Encoding) =>
  new TextDecoder(encoding).decode(content)

export interface Table {
  format: 'csv' | 'ndjson'
  separator: string
  columns: string[]
  /** A row has a value for each column; texts in CSV. */
  rows: Json[][]
  /** Lines that are no objects, by their numbers. */
  broken: number[]
}

export const isJson = (text: string, name: string) =>
  /\.(ndjson|jsonl|json)$/i.test(name) || (!/\.(csv|tsv|txt)$/i.test(name) && text.trimStart().startsWith('{'))

/** What stands most often between the names of the columns. */
function separatorOf(text: string): string {
  const head = (text.match(/^\uFEFF?[^\r\n]*/)?.[0] ?? '').replaceAll(/"[^"]*"/g, '')
  const counted = SEPARATORS.map((sign) => ({ sign, count: head.split(sign).length }))
  return counted.reduce((best, one) => (one.count > best.count ? one : best)).sign
}

export function readCsv(text: string, chosen: string | undefined): Table {
  const separator = chosen ?? separatorOf(text)
  const { data } = Papa.parse<string[]>(text, { skipEmptyLines: 'greedy', delimiter: separator })
  const [head = [], ...rows] = data
  const columns = head.map((name, n) => name.trim() || `${n + 1}`)
  return {
    format: 'csv',
    separator,
    columns,
    rows: rows.map((row) => columns.map((_, n) => row[n] ?? '')),
    broken: [],
  }
}

/** Lines of an export have their values in `fields`; others have them beside everything else. */
function flat(line: Fields): Fields {
  const { fields, _meta, ...rest } = line
  const isRecord = typeof fields === 'object' && fields !== null && !Array.isArray(fields)
  return isRecord ? { ...rest, ...fields } : { ...rest, ...(fields !== undefined && { fields }) }
}

export function readLines(text: string): Table {
  const objects: Fields[] = []
  const broken: number[] = []
  for (const [n, line] of text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .entries()) {
    if (line.trim() === '') continue
    try {
      const value = JSON.parse(line) as Json
      if (typeof value === 'object' && value !== null && !Array.isArray(value)) objects.push(flat(value))
      else broken.push(n + 1)
    } catch {
      broken.push(n + 1)
    }
  }
  const columns = [...new Set(objects.flatMap((one) => Object.keys(one)))]
  return {
    format: 'ndjson',
    separator: '',
    columns,
    rows: objects.map((one) => columns.map((name) => one[name] ?? null)),
    broken,
  }
}

/** Rows as a file again, with what is wrong with each. */
export function written(table: Table, rows: { row: Json[]; error: string }[], column: string): Blob {
  if (table.format === 'ndjson') {
    const lines = rows.map(({ row, error }) =>
      JSON.stringify({
        ...Object.fromEntries(table.columns.map((name, n) => [name, row[n] ?? null])),
        [column]: error,
      }),
    )
    return new Blob([`${lines.join('\n')}\n`], { type: 'application/x-ndjson' })
  }
  const text = Papa.unparse(
    { fields: [...table.columns, column], data: rows.map(({ row, error }) => [...row, error]) },
    { delimiter: table.separator },
  )
  return new Blob(['\uFEFF', text], { type: 'text/csv' })
}
