// Files as people see them: a size, and a place on their disk.

import { download } from '../api/request.ts'
import { LANGUAGE } from '../texts.ts'

const UNITS = ['byte', 'kilobyte', 'megabyte', 'gigabyte'] as const

export function sizeOf(bytes: number): string {
  const step = Math.min(UNITS.length - 1, Math.floor(Math.log(Math.max(bytes, 1)) / Math.log(1000)))
  const unit = UNITS[step] ?? 'byte'
  return new Intl.NumberFormat(LANGUAGE, {
    style: 'unit',
    unit,
    unitDisplay: step === 0 ? 'long' : 'short',
    maximumFractionDigits: step === 0 ? 0 : 1,
  }).format(bytes / 1000 ** step)
}

/** Gives a content to the browser to be saved under a name. */
export function saveAs(content: Blob, name: string) {
  const address = URL.createObjectURL(content)
  const link = document.createElement('a')
  link.href = address
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(address), 60_000)
}

/** Saves a file of the API under the name of the answer, else under the given name. */
export async function saveFile(url: string, name: string): Promise<void> {
  const { content, name: called } = await download(url)
  saveAs(content, called ?? name)
}
