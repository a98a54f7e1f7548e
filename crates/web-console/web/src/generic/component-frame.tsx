// A custom component in a frame. It has an origin of its own, so it reaches nothing around it; all that passes between it and
// the page is messages through one port (`docs/reference/custom-components.md`).

import { queryOptions, useQuery } from '@tanstack/react-query'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { writeJson } from '../api/json.ts'
import { page } from '../api/query.ts'
import { get, Refusal } from '../api/request.ts'
import type { Fields, Instance, Page, Use } from '../api/shapes.ts'
import css from '../kit/controls.module.css'
import { type Key, LANGUAGE, t } from '../texts.ts'
import look from './component-frame.module.css'
import { Flood, parseMessage } from './component-messages.ts'
import { mayReadComponents } from './component-rights.ts'
import { Reading } from './failure.tsx'

const COMPONENTS = '/api/custom-components/'
const HEIGHT_AT_FIRST = 160
const PATIENCE = 8000

export interface ComponentFrameProps {
  component: number
  use: Use
  parameters?: Record<string, unknown>
  /** The first value. The component sends later ones. */
  value?: unknown
  /** The id of the record beside the component, and the values of the fields that its item names. */
  record?: number | undefined
  fields?: Fields | undefined
  onValue?: (value: unknown) => void
  onErrors?: (errors: string[]) => void
  /** Set if another part of the page shows the errors. */
  hidesErrors?: boolean
  /** The control that replaces a component that cannot be shown or does not answer. */
  fallback?: ReactNode
}

/**
 * Its files are below its own number; anything else is not an address of it. The build may have another name than ours.
 */
function addressOf({ id, index_url: url }: Instance): string | undefined {
  if (typeof url !== 'string' || !URL.canParse(url)) return undefined
  const { pathname } = new URL(url)
  return pathname.startsWith(`/components/${id}/`) ? pathname : undefined
}

function whyNot(component: Instance | undefined): Key {
  if (!component) return 'component-frame.missing'
  return component.is_enabled === true ? 'component-frame.not-imported' : 'component-frame.disabled'
}

/** A component as those see it who look after components: also one that is switched off, or not there yet. */
const inList = (component: number) => {
  const { queryKey, queryFn } = page(COMPONENTS, `id=${component}&limit=1`)
  return queryOptions({
    queryKey: [...queryKey, 'one'],
    queryFn: async (context) => (await (queryFn as (of: typeof context) => Promise<Page>)(context)).results[0] ?? null,
  })
}

/** A component as everybody sees it: one that can be shown, or none. */
const inFrame = (component: number) => {
  const path = `${COMPONENTS}frames/${component}/`
  return queryOptions({
    queryKey: [path],
    queryFn: ({ signal }) =>
      get<Instance>(path, signal).then(
        (found): Instance | null => ({ ...found, is_enabled: true }),
        (error: unknown) => {
          if (error instanceof Refusal && error.status === 404) return null
          throw error
        },
      ),
  })
}

export function ComponentFrame({ component, fallback, ...props }: ComponentFrameProps) {
  // Read once, so that typed values are not lost.
  const componentQuery = useQuery({
    ...(mayReadComponents() ? inList(component) : inFrame(component)),
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  })
  if (componentQuery.data === undefined) return <Reading of={[componentQuery]} />
  const loadedComponent = componentQuery.data ?? undefined
  const address = loadedComponent?.is_enabled === true ? addressOf(loadedComponent) : undefined
  if (!address) return <Instead text={whyNot(loadedComponent)}>{fallback}</Instead>
  // A component gets its input once. Other parameters or values start it again.
  const { use, parameters = {}, record = null, fields = {} } = props
  const key = writeJson([address, use, parameters, record, fields])
  return <Frame key={key} address={address} name={`${loadedComponent?.name}`} fallback={fallback} {...props} />
}

function Instead({ text, children }: { text: Key; children: ReactNode }) {
  return (
    <div className={look.place}>
      <p className={css.notice} data-tone="warn" role="status">
        {t(text)}
      </p>
      {children}
    </div>
  )
}

/** The reason for closing a frame, and its text. */
const CLOSED = { left: 'component-frame.left', flooded: 'component-frame.flooded' } as const

const theme = () =>
  document.documentElement.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')

function Frame({
  address,
  name,
  use,
  parameters = {},
  value = null,
  record,
  fields = {},
  onValue,
  onErrors,
  hidesErrors,
  fallback,
}: Omit<ComponentFrameProps, 'component'> & { address: string; name: string }) {
  const frame = useRef<HTMLIFrameElement>(null)
  const port = useRef<MessagePort | undefined>(undefined)
  const listeners = useRef({ onValue, onErrors })
  const [height, setHeight] = useState(HEIGHT_AT_FIRST)
  const [errors, setErrors] = useState<string[]>([])
  const [state, setState] = useState<'waiting' | 'late' | 'ready' | keyof typeof CLOSED>('waiting')
  const [flood] = useState(() => new Flood())
  useEffect(() => {
    listeners.current = { onValue, onErrors }
  })
  useEffect(() => {
    const timer = setTimeout(() => setState((now) => (now === 'waiting' ? 'late' : now)), PATIENCE)
    return () => {
      clearTimeout(timer)
      port.current?.close()
      listeners.current.onErrors?.([])
    }
  }, [])
  /** It gets no further input, and its messages are ignored. */
  const close = (why: keyof typeof CLOSED) => {
    port.current?.close()
    setErrors([])
    listeners.current.onErrors?.([])
    setState(why)
  }
  // Messages beside its port are ignored, but cost the page time.
  useEffect(() => {
    const count = ({ source }: MessageEvent) => {
      if (source !== null && source === frame.current?.contentWindow && !flood.admits(() => {})) close('flooded')
    }
    addEventListener('message', count)
    return () => removeEventListener('message', count)
  })
  const handleMessage = ({ data }: MessageEvent) => {
    const message = parseMessage(data)
    switch (message?.type) {
      case 'ready':
        return setState('ready')
      case 'height':
        return setHeight(message.height)
      case 'value':
        return listeners.current.onValue?.(message.value)
      case 'errors':
        setErrors(message.errors)
        return listeners.current.onErrors?.(message.errors)
    }
  }
  const sendInit = () => {
    // It went to another page.
    if (port.current) return close('left')
    const { port1, port2 } = new MessageChannel()
    port.current = port1
    port1.onmessage = (event) => {
      if (!flood.admits(() => handleMessage(event))) close('flooded')
    }
    const init = {
      type: 'init',
      use,
      parameters,
      value,
      record: record ?? null,
      fields,
      locale: LANGUAGE,
      theme: theme(),
    }
    // A frame without an origin cannot be named, so any page in it gets the message.
    frame.current?.contentWindow?.postMessage(init, '*', [port2])
  }
  const isClosed = state in CLOSED
  const explanation = state === 'late' ? 'component-frame.late' : isClosed && CLOSED[state as keyof typeof CLOSED]
  return (
    <div className={look.place}>
      {explanation && <Instead text={explanation}>{fallback}</Instead>}
      {!isClosed && (
        <iframe
          ref={frame}
          className={look.frame}
          sandbox="allow-scripts"
          referrerPolicy="no-referrer"
          title={t('component-frame.title', { name })}
          src={address}
          style={{ height }}
          onLoad={sendInit}
        />
      )}
      <div role="status">
        {!hidesErrors && errors.length > 0 && (
          <ul className={`${css.error} ${look.errors}`}>
            {errors.map((error) => (
              <li key={error}>{error}</li>
            ))}
          </ul>
        )}
      </div>
    </div>
  )
}
