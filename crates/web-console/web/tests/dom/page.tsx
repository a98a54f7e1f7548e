// A page of the console in a simulated browser, with an API of fixed answers.

import { afterEach } from 'node:test'
import { QueryClientProvider } from '@tanstack/react-query'
import { createMemoryHistory, createRootRoute, createRoute, createRouter, RouterProvider } from '@tanstack/react-router'
import { act, type ReactNode } from 'react'
import { createRoot } from 'react-dom/client'
import { queries } from '../../src/api/query.ts'
import type { Json } from '../../src/api/shapes.ts'
import { parseSearch, stringifySearch } from '../../src/generic/address.ts'
import { BASE } from '../../src/generic/go.tsx'
import { moreTexts } from '../../src/texts.ts'

/** The answers of the API by method and path, with or without the query. */
export type Answers = { [request: string]: Json | ((body: Json, search: string) => Json) }

export interface Request {
  method: string
  path: string
  search: string
  body: Json
}

export interface TestPage {
  /** The requests since the page was opened. */
  requests: Request[]
  /** The address below `/console`. */
  address: () => string
}

let close = async () => {}
afterEach(() => close())

/** Opens a page at an address below `/console`. It is closed after the test. */
export async function open(address: string, content: ReactNode, answers: Answers): Promise<TestPage> {
  await moreTexts()
  queries.clear()
  const requests = answering(answers)
  const place = document.createElement('div')
  document.body.append(place)
  const history = createMemoryHistory({ initialEntries: [BASE + address] })
  const root = createRootRoute()
  const everyPath = createRoute({ getParentRoute: () => root, path: '$', component: () => content })
  const routeTree = root.addChildren([everyPath])
  const router = createRouter({ routeTree, basepath: BASE, history, parseSearch, stringifySearch })
  const drawing = createRoot(place)
  await act(async () =>
    drawing.render(
      <QueryClientProvider client={queries}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>,
    ),
  )
  close = async () => {
    await act(async () => drawing.unmount())
    document.body.replaceChildren()
    // Its timers would keep the process alive.
    queries.clear()
  }
  return { requests, address: () => history.location.href.slice(BASE.length) }
}

/** Answers `fetch` from a table, and lists the requests. */
function answering(answers: Answers): Request[] {
  const requests: Request[] = []
  globalThis.fetch = async (input, init = {}) => {
    const { pathname: path, search } = new URL(`${input}`, 'http://localhost')
    const method = init.method ?? 'GET'
    const body = typeof init.body === 'string' ? (JSON.parse(init.body) as Json) : null
    requests.push({ method, path, search, body })
    const answer = answers[`${method} ${path}${search}`] ?? answers[`${method} ${path}`]
    if (answer === undefined)
      return Response.json({ detail: `no answer to ${method} ${path}${search}` }, { status: 404 })
    return Response.json(typeof answer === 'function' ? answer(body, search) : answer)
  }
  return requests
}

/** A page of a list, as the API answers it. */
export const pageOf = (results: Json[], count = results.length, offset = 0): Json => ({
  results,
  offset,
  limit: 25,
  next: offset + results.length < count ? 'next' : null,
  previous: offset > 0 ? 'previous' : null,
  total_count: count,
  filtered_count: count,
})

/** Repeats a check until it passes. The limit is for a busy machine. */
export async function eventually<T>(check: () => T): Promise<T> {
  for (const end = Date.now() + 20_000; ; ) {
    await act(async () => {
      await new Promise((resolve) => setTimeout(resolve, 5))
    })
    try {
      return check()
    } catch (error) {
      if (Date.now() > end) throw error
    }
  }
}

const nameOf = (element: Element) => (element.getAttribute('aria-label') ?? element.textContent ?? '').trim()

const BUTTONS = 'button, a, [role=menuitem], [role=option], [role=button]'

/** All elements of a selector, in the order of the page. */
export const all = (selector: string) => [...document.querySelectorAll<HTMLElement>(selector)]

/** The texts of all elements of a selector. */
export const texts = (selector: string) => all(selector).map(nameOf)

/** The button, link or menu item of a name. */
export function button(name: string): HTMLElement {
  const found = all(BUTTONS).find((element) => nameOf(element) === name)
  if (!found) throw new Error(`no button "${name}" among ${texts(BUTTONS).join(' | ')}`)
  return found
}

/** Presses a button as soon as it is there. */
export async function press(name: string, init: MouseEventInit = {}) {
  const element = await eventually(() => button(name))
  await click(element, init)
}

export async function click(element: Element, init: MouseEventInit = {}) {
  await act(async () => {
    element.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, detail: 1, ...init }))
  })
}

/** Presses a key on the element that has the focus. */
export async function key(name: string, init: KeyboardEventInit = {}) {
  await act(async () => {
    const target = document.activeElement ?? document.body
    const code = name.length === 1 ? `Key${name.toUpperCase()}` : name
    target.dispatchEvent(new KeyboardEvent('keydown', { key: name, code, bubbles: true, cancelable: true, ...init }))
    target.dispatchEvent(new KeyboardEvent('keyup', { key: name, code, bubbles: true, cancelable: true, ...init }))
  })
}

/** Types a text into the input of a name, in place of the text in it. */
export async function type(name: string, text: string) {
  const input = await eventually(() => {
    const found = document.querySelector<HTMLInputElement>(`input[name="${name}"], textarea[name="${name}"]`)
    if (!found) throw new Error(`no input "${name}"`)
    return found
  })
  const prototype = input instanceof HTMLTextAreaElement ? HTMLTextAreaElement.prototype : HTMLInputElement.prototype
  await act(async () => {
    input.focus()
    Object.getOwnPropertyDescriptor(prototype, 'value')?.set?.call(input, text)
    input.dispatchEvent(new Event('input', { bubbles: true }))
  })
}
