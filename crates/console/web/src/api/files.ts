// Files: sent one by one before what refers to them, and fetched with the caller's token, which a link would not carry.

import { Refusal } from './request.ts'
import { token } from './session.ts'
import type { Fields } from './shapes.ts'

const UPLOAD = '/api/files/upload/'

export interface Upload {
  /** A part of one. */
  onProgress: (part: number) => void
  signal: AbortSignal
}

/** Sends a file; what comes back is the token with which another request takes it. */
export function upload(file: File, { onProgress, signal }: Upload): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    request.open('POST', UPLOAD)
    request.setRequestHeader('Authorization', `Bearer ${token() ?? ''}`)
    request.setRequestHeader('Content-Disposition', `attachment; filename*=UTF-8''${encodeURIComponent(file.name)}`)
    request.setRequestHeader('Content-Type', 'application/octet-stream')
    request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 0)
    request.onload = () => {
      const body = parsed(request.responseText)
      if (request.status === 201 && typeof body.token === 'string') resolve(body.token)
      else reject(new Refusal(request.status, body, request.getResponseHeader('X-Request-Id'), null))
    }
    request.onerror = () => reject(new Refusal(0, {}, null, null))
    request.onabort = () => reject(new DOMException('', 'AbortError'))
    signal.addEventListener('abort', () => request.abort())
    request.send(file)
  })
}

function parsed(text: string): Fields {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

/** The name that an answer gives to its file. */
function named(answer: Response): string | undefined {
  const [, name] = /filename\*=UTF-8''([^;]+)/i.exec(answer.headers.get('Content-Disposition') ?? '') ?? []
  return name === undefined ? undefined : decodeURIComponent(name)
}

/** Saves a file of the API; it is called as the answer says, else by the name given. */
export async function download(url: string, name: string): Promise<void> {
  const { pathname, search } = new URL(url, location.href)
  const answer = await fetch(pathname + search, { headers: { Authorization: `Bearer ${token() ?? ''}` } })
  if (!answer.ok)
    throw new Refusal(answer.status, parsed(await answer.text()), answer.headers.get('X-Request-Id'), null)
  const address = URL.createObjectURL(await answer.blob())
  const link = document.createElement('a')
  link.href = address
  link.download = named(answer) ?? name
  link.click()
  setTimeout(() => URL.revokeObjectURL(address), 60_000)
}
