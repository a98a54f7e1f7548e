// Files: those that are there, fetched with the caller's token, which a link would not carry; and those of a field, sent before
// what refers to them and taken by their tokens.

import { useEffect, useId, useRef, useState } from 'react'
import { download, upload } from '../api/request.ts'
import type { Json } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { type FieldProps, Fieldset } from '../kit/fields.tsx'
import { useHold } from '../kit/messages.ts'
import { t } from '../texts.ts'
import { sayError, told } from './failure.tsx'
import look from './files.module.css'
import { saveAs, sizeOf } from './save.ts'

/** A file that is there, as labels tell. */
export interface Kept {
  name: string
  url?: string
  size?: string
  type?: string
}

/** Pictures of points, which no script can be part of. */
const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/bmp']
const LARGEST_PICTURE = 5_000_000

function Picture({ url, name, type }: { url: string; name: string; type: string }) {
  const [address, setAddress] = useState<string | undefined>()
  useEffect(() => {
    const gone = new AbortController()
    let made: string | undefined
    void download(url, gone.signal).then(
      ({ content }) => {
        if (gone.signal.aborted) return
        made = URL.createObjectURL(new Blob([content], { type }))
        setAddress(made)
      },
      () => {},
    )
    return () => {
      gone.abort()
      if (made) URL.revokeObjectURL(made)
    }
  }, [url, type])
  return address ? <img className={look.picture} src={address} alt={name} /> : null
}

/** A file that can be saved; pictures are shown. */
export function FileLine({ file: { name, url, size, type } }: { file: Kept }) {
  const [fetching, setFetching] = useState<AbortController | undefined>()
  const save = async (from: string) => {
    const stop = new AbortController()
    setFetching(stop)
    try {
      const { content, name: called } = await download(from, stop.signal)
      saveAs(content, called ?? name)
    } catch (error) {
      if (!stop.signal.aborted) sayError(error)
    }
    setFetching(undefined)
  }
  return (
    <div className={look.file}>
      {url && type && PICTURES.includes(type) && Number(size) <= LARGEST_PICTURE && (
        <Picture url={url} name={name} type={type} />
      )}
      <span className={look.name}>{name}</span>
      {size && <span className={css.hint}>{sizeOf(Number(size))}</span>}
      {fetching ? (
        <Button look="quiet" icon="x" onPress={() => fetching.abort()}>
          {t('cancel')}
        </Button>
      ) : (
        url && (
          <Button
            look="quiet"
            icon="download"
            aria-label={t('records.download', { name })}
            onPress={() => void save(url)}
          />
        )
      )}
    </div>
  )
}

interface Sending {
  id: number
  name: string
  part: number
  error?: string
  abort: () => void
}

let next = 1
/** What was sent in this tab, by its token: another page of it may show the same. */
const sent = new Map<string, Kept>()

/** Items are ids or tokens, or `{file: …}` around them, as answers of tasks have them. */
const nameIn = (item: Json): string =>
  item && typeof item === 'object' && !Array.isArray(item) ? `${item.file}` : `${item}`

export function Files({
  value,
  most,
  known,
  accept,
  wrap = (token) => token,
  onChange,
  ...props
}: FieldProps & {
  value: Json[]
  most: number
  known?: { [id: string]: Kept } | undefined
  /** Extensions, as the browser's dialog takes them. */
  accept?: string
  /** How a token stands in the value. */
  wrap?: (token: string) => Json
  onChange: (value: Json[]) => void
}) {
  const [sending, setSending] = useState<Sending[]>([])
  const [isOver, setIsOver] = useState(false)
  const input = useRef<HTMLInputElement>(null)
  const id = useId()
  // Several may arrive while the value is still the one that was there when they began.
  const current = useRef(value)
  useEffect(() => {
    current.current = value
  }, [value])
  const left = most - value.length - sending.filter(({ error }) => !error).length
  const change = (one: number, change_: Partial<Sending>) =>
    setSending((all) => all.map((item) => (item.id === one ? { ...item, ...change_ } : item)))
  const drop = (one: number) => setSending((all) => all.filter((item) => item.id !== one))
  const send = async (file: File) => {
    const gone = new AbortController()
    const one = { id: next++, name: file.name, part: 0, abort: () => gone.abort() }
    setSending((all) => [...all, one])
    try {
      const token = await upload(file, (bytes) => change(one.id, { part: bytes / Math.max(file.size, 1) }), gone.signal)
      sent.set(token, { name: file.name, size: `${file.size}` })
      current.current = [...current.current, wrap(token)]
      onChange(current.current)
      drop(one.id)
    } catch (refused) {
      if (gone.signal.aborted) return drop(one.id)
      change(one.id, { error: told(refused) })
    }
  }
  useHold(props.name, sending.some(({ error }) => !error) ? t('files.wait') : undefined)
  const take = (files: FileList | null) => {
    for (const file of [...(files ?? [])].slice(0, Math.max(left, 0))) void send(file)
  }
  return (
    <Fieldset {...props} hint={props.hint ?? t('files.most', { count: most })}>
      {value.length + sending.length > 0 && (
        <ul className={look.files}>
          {value.map((item) => {
            const key = nameIn(item)
            const file = sent.get(key) ?? known?.[key]
            const name = file?.name ?? t('files.unnamed')
            return (
              <li key={key}>
                <FileLine file={{ ...file, name }} />
                <button
                  type="button"
                  className={css.remove}
                  aria-label={t('remove-one', { name })}
                  disabled={props.isDisabled}
                  onClick={() => onChange(value.filter((one) => one !== item))}
                >
                  {'×'}
                </button>
              </li>
            )
          })}
          {sending.map((file) => (
            <li key={file.id}>
              <span>{file.name}</span>
              {file.error ? (
                <span className={css.error} role="alert">
                  {file.error}
                </span>
              ) : (
                <progress max={1} value={file.part} aria-label={t('files.sending', { name: file.name })} />
              )}
              <button
                type="button"
                className={css.remove}
                aria-label={t(file.error ? 'remove-one' : 'files.cancel', { name: file.name })}
                onClick={() => (file.error ? drop(file.id) : file.abort())}
              >
                {'×'}
              </button>
            </li>
          ))}
        </ul>
      )}
      {left > 0 && !props.isDisabled && (
        <label
          className={look.drop}
          htmlFor={id}
          data-over={isOver || undefined}
          onDragOver={(event) => {
            event.preventDefault()
            setIsOver(true)
          }}
          onDragLeave={() => setIsOver(false)}
          onDrop={(event) => {
            event.preventDefault()
            setIsOver(false)
            take(event.dataTransfer.files)
          }}
        >
          <input
            ref={input}
            id={id}
            type="file"
            name={props.name}
            multiple={left > 1}
            accept={accept}
            aria-label={t('files.choose-for', { name: props.label })}
            onChange={(event) => {
              take(event.target.files)
              event.target.value = ''
            }}
          />
          <span aria-hidden="true">{t('files.drop')}</span>
        </label>
      )}
    </Fieldset>
  )
}
