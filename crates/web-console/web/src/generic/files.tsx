// Files: stored ones, fetched with the caller's token, which a link would not send; and those of a field, uploaded
// before the form that refers to their tokens.

import { useEffect, useId, useRef, useState } from 'react'
import { download, upload } from '../api/request.ts'
import type { Json } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { type FieldProps, Fieldset } from '../kit/fields.tsx'
import { useHold } from '../kit/messages.ts'
import { t } from '../texts.ts'
import { failureText, sayError } from './failure.tsx'
import look from './files.module.css'
import { saveAs, sizeOf } from './save.ts'

/** A stored file, as in the labels. */
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
    const aborter = new AbortController()
    let objectUrl: string | undefined
    void download(url, aborter.signal).then(
      ({ content }) => {
        if (aborter.signal.aborted) return
        objectUrl = URL.createObjectURL(new Blob([content], { type }))
        setAddress(objectUrl)
      },
      () => {},
    )
    return () => {
      aborter.abort()
      if (objectUrl) URL.revokeObjectURL(objectUrl)
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
/** The files that this tab sent, by their tokens: another page of the tab may show the same file. */
const uploaded = new Map<string, Kept>()

/** Items are ids or tokens, or `{file: …}` around them, as answers of tasks have them. */
const nameIn = (item: Json): string =>
  item && typeof item === 'object' && !Array.isArray(item) ? `${item.file}` : `${item}`

interface FilesProps extends FieldProps {
  value: Json[]
  most: number
  known?: { [id: string]: Kept } | undefined
  /** Extensions, as the browser's dialog takes them. */
  accept?: string
  /** Puts a token into the form that the value has. */
  wrap?: (token: string) => Json
  onChange: (value: Json[]) => void
}

/** Sends files, and adds their tokens to the value when they have arrived. */
function useUploads({ value, wrap = (token) => token, onChange }: FilesProps) {
  const [sending, setSending] = useState<Sending[]>([])
  // Several may arrive while the value is still the one that was there when they began.
  const current = useRef(value)
  useEffect(() => {
    current.current = value
  }, [value])
  const update = (id: number, change: Partial<Sending>) =>
    setSending((all) => all.map((file) => (file.id === id ? { ...file, ...change } : file)))
  const drop = (id: number) => setSending((all) => all.filter((file) => file.id !== id))
  const send = async (file: File) => {
    const aborter = new AbortController()
    const { name, size } = file
    const id = next++
    setSending((all) => [...all, { id, name, part: 0, abort: () => aborter.abort() }])
    try {
      const token = await upload(file, (bytes) => update(id, { part: bytes / Math.max(size, 1) }), aborter.signal)
      uploaded.set(token, { name, size: `${size}` })
      current.current = [...current.current, wrap(token)]
      onChange(current.current)
      drop(id)
    } catch (refused) {
      if (aborter.signal.aborted) return drop(id)
      update(id, { error: failureText(refused) })
    }
  }
  return { sending, send, drop }
}

export function Files(props: FilesProps) {
  const { value, most, known: storedFiles, onChange } = props
  const { sending, send, drop } = useUploads(props)
  const remaining = most - value.length - sending.filter(({ error }) => !error).length
  useHold(props.name, sending.some(({ error }) => !error) ? t('files.wait') : undefined)
  return (
    <Fieldset {...props} hint={props.hint ?? t('files.most', { count: most })}>
      {value.length + sending.length > 0 && (
        <ul className={look.files}>
          {value.map((item) => {
            const key = nameIn(item)
            const file = uploaded.get(key) ?? storedFiles?.[key]
            const name = file?.name ?? t('files.unnamed')
            return (
              <li key={key}>
                <FileLine file={{ ...file, name }} />
                <Remove
                  label={t('remove-one', { name })}
                  isDisabled={props.isDisabled}
                  onRemove={() => onChange(value.filter((other) => other !== item))}
                />
              </li>
            )
          })}
          {sending.map((file) => (
            <SendingLine key={file.id} file={file} onDrop={() => drop(file.id)} />
          ))}
        </ul>
      )}
      {remaining > 0 && !props.isDisabled && (
        <DropZone
          name={props.name}
          label={props.label}
          accept={props.accept}
          most={remaining}
          onFiles={(files) => {
            for (const file of files) void send(file)
          }}
        />
      )}
    </Fieldset>
  )
}

interface RemoveProps {
  label: string
  isDisabled?: boolean | undefined
  onRemove: () => void
}

const Remove = ({ label, isDisabled, onRemove }: RemoveProps) => (
  <button type="button" className={css.remove} aria-label={label} disabled={isDisabled} onClick={onRemove}>
    {'×'}
  </button>
)

/** A file that is being sent, or that could not be sent. */
const SendingLine = ({ file, onDrop }: { file: Sending; onDrop: () => void }) => (
  <li>
    <span>{file.name}</span>
    {file.error ? (
      <span className={css.error} role="alert">
        {file.error}
      </span>
    ) : (
      <progress max={1} value={file.part} aria-label={t('files.sending', { name: file.name })} />
    )}
    <Remove
      label={t(file.error ? 'remove-one' : 'files.cancel', { name: file.name })}
      onRemove={() => (file.error ? onDrop() : file.abort())}
    />
  </li>
)

interface DropZoneProps {
  name: string
  label: string
  accept: string | undefined
  most: number
  /** Called with at most `most` files. */
  onFiles: (files: File[]) => void
}

/** The place where files are dropped or chosen. */
function DropZone({ name, label, accept, most, onFiles }: DropZoneProps) {
  const [isOver, setIsOver] = useState(false)
  const id = useId()
  const takeFiles = (files: FileList | null) => onFiles([...(files ?? [])].slice(0, most))
  return (
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
        takeFiles(event.dataTransfer.files)
      }}
    >
      <input
        id={id}
        type="file"
        name={name}
        multiple={most > 1}
        accept={accept}
        aria-label={t('files.choose-for', { name: label })}
        onChange={(event) => {
          takeFiles(event.target.files)
          event.target.value = ''
        }}
      />
      <span aria-hidden="true">{t('files.drop')}</span>
    </label>
  )
}
