// The records that a list shows, as a file.

import { call, download, Refusal } from '../../api/request.ts'
import type { ExportLink } from '../../api/shapes.ts'
import { saveAs } from '../../generic/save.ts'
import { listOf } from '../../shared/records/class.ts'

const PAGING = ['limit', 'offset']

/**
 * Exports by a link that works once, so that the browser saves the file while it arrives. Two cases are read into
 * memory: a list with two filters by one parameter, and a server without links.
 */
export async function exportRecords(id: number, name: string, format: 'csv' | 'ndjson', parameters: string) {
  const filters = [...new URLSearchParams(parameters)].filter(([key]) => !PAGING.includes(key))
  // Without a mark spreadsheets take the letters of a CSV for those of another encoding.
  if (format === 'csv') filters.unshift(['bom', 'true'])
  const path = `${listOf(id)}export/`
  const inMemory = async () => {
    const { content } = await download(`${path}?${new URLSearchParams([['format', format], ...filters])}`)
    saveAs(content, `${name}.${format}`)
  }
  if (new Set(filters.map(([key]) => key)).size < filters.length) return inMemory()
  try {
    const { data } = await call<ExportLink>('POST', `${path}link/`, {
      body: { format, ...Object.fromEntries(filters) },
    })
    const { pathname, search } = new URL(data.url, location.origin)
    const link = document.createElement('a')
    link.href = pathname + search
    link.download = ''
    link.click()
  } catch (error) {
    if (!(error instanceof Refusal) || ![404, 405].includes(error.status)) throw error
    await inMemory()
  }
}
