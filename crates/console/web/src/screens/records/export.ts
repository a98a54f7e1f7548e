// The records that a list shows, as a file.

import { call, download, Refusal } from '../../api/request.ts'
import { saveAs } from '../../generic/save.ts'
import { listOf } from './class.ts'

const PAGING = ['limit', 'offset']

/** By a link that works once the browser saves the file while it arrives; a server without such links is read into memory. */
export async function exportRecords(id: number, name: string, format: 'csv' | 'ndjson', parameters: string) {
  const wanted = [...new URLSearchParams(parameters)].filter(([key]) => !PAGING.includes(key))
  const path = `${listOf(id)}export/`
  try {
    const { data } = await call<{ url: string }>('POST', `${path}link/`, {
      body: { format, ...Object.fromEntries(wanted) },
    })
    const { pathname, search } = new URL(data.url, location.origin)
    const link = document.createElement('a')
    link.href = pathname + search
    link.download = ''
    link.click()
  } catch (error) {
    if (!(error instanceof Refusal) || ![404, 405].includes(error.status)) throw error
    const { content } = await download(`${path}?${new URLSearchParams([['format', format], ...wanted])}`)
    saveAs(content, `${name}.${format}`)
  }
}
