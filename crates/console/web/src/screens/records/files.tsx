// Files of records: sent before the form is saved, and taken by their tokens; shown with their names, pictures as such.

import { useEffect, useRef, useState } from 'react'
import { download, upload } from '../../api/request.ts'
import type { Instance, Json } from '../../api/shapes.ts'
import type { InputProps } from '../../generic/resource.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Fieldset } from '../../kit/fields.tsx'
import { Icon } from '../../kit/icons.tsx'
import { say } from '../../kit/toasts.tsx'
import { labelOf, t } from '../../texts.ts'
import look from './records.module.css'
import { saveAs, sizeOf } from './save.ts'
import { type FileLabel, filesOf } from './shape.ts'

/** Pictures of points, which no script can be part of. */
const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/bmp']
const LARGEST_PICTURE = 5_000_000

function Picture({ file }: { file: FileLabel }) {
  const [address, setAddress] = useState<string | undefined>()
  useEffect(() => {
    const gone = new AbortController()
    let made: string | undefined
    void download(file.url, gone.signal).then(
      (content) => {
        if (gone.signal.aborted) return
        made = URL.createObjectURL(new Blob([content], { type: file.type }))
        setAddress(made)
      },
      () => {},
    )
    return () => {
      gone.abort()
      if (made) URL.revokeObjectURL(made)
    }
  }, [file.url, file.type])
  return address ? <img className={look.picture} src={address} alt={file.name} /> : null
}

export function FileLine({ file }: { file: FileLabel }) {
  const [fetching, setFetching] = useState<AbortController | undefined>()
  const save = async () => {
    const stop = new AbortController()
    setFetching(stop)
    try {
      saveAs(await download(file.url, stop.signal), file.name)
    } catch (error) {
      if (!stop.signal.aborted) say(error instanceof Error ? error.message : t('failure.other'))
    }
    setFetching(undefined)
  }
  const isPicture = PICTURES.includes(file.type) && Number(file.size) <= LARGEST_PICTURE
  return (
    <div className={look.file}>
      {isPicture && <Picture file={file} />}
      <span className={look.name}>{file.name}</span>
      <span className={css.hint}>{sizeOf(Number(file.size))}</span>
      {fetching ? (
        <Button look="quiet" icon="x" onPress={() => fetching.abort()}>
          {t('cancel')}
        </Button>
      ) : (
        <Button
          look="quiet"
          icon="download"
          aria-label={t('records.download', { name: file.name })}
          onPress={() => void save()}
        />
      )}
    </div>
  )
}

export function Files({ value, instance }: { value: Json; instance: Instance }) {
  const known = filesOf(instance)
  const ids = Array.isArray(value) ? value : []
  if (ids.length === 0) return <span className={css.optional}>{t('none')}</span>
  return (
    <ul className={look.files}>
      {ids.map((id) => {
        const file = known[`${id}`]
        return <li key={`${id}`}>{file ? <FileLine file={file} /> : `${id}`}</li>
      })}
    </ul>
  )
}

interface Sending {
  key: number
  name: string
  size: number
  sent: number
  error?: string
  stop: AbortController
}

let next = 0

export function FileInput({ field, name, value, onChange, instance }: InputProps) {
  const ids = Array.isArray(value) ? value : []
  const known = instance ? filesOf(instance) : {}
  const [names, setNames] = useState<{ [token: string]: string }>({})
  const [sending, setSending] = useState<Sending[]>([])
  const [isOver, setIsOver] = useState(false)
  const picker = useRef<HTMLInputElement>(null)
  // Several files are on their way at once: each adds itself to what is there when it arrives.
  const latest = useRef(ids)
  latest.current = ids
  const most = field.max_num_of_files ?? 1
  const left = most - ids.length - sending.filter(({ error }) => !error).length
  const change = (now: Json[]) => {
    latest.current = now
    onChange(now.length ? now : null)
  }
  const set = (key: number, what: Partial<Sending>) =>
    setSending((all) => all.map((one) => (one.key === key ? { ...one, ...what } : one)))
  const send = async (file: File) => {
    const stop = new AbortController()
    const key = next++
    setSending((all) => [...all, { key, name: file.name, size: file.size, sent: 0, stop }])
    try {
      const token = await upload(file, (sent) => set(key, { sent }), stop.signal)
      setNames((before) => ({ ...before, [token]: file.name }))
      setSending((all) => all.filter((one) => one.key !== key))
      change([...latest.current, token])
    } catch (error) {
      if (stop.signal.aborted) setSending((all) => all.filter((one) => one.key !== key))
      else set(key, { error: error instanceof Error && error.message !== '0' ? error.message : t('failure.offline') })
    }
  }
  const take = (files: FileList | null) => {
    for (const file of [...(files ?? [])].slice(0, Math.max(left, 0))) void send(file)
  }
  return (
    <Fieldset
      name={name}
      label={labelOf(field)}
      hint={field.description || t('records.files.most', { count: most })}
      isRequired={field.required}
    >
      <ul className={look.files}>
        {ids.map((id) => {
          const text = known[`${id}`]?.name ?? names[`${id}`] ?? `${id}`
          return (
            <li key={`${id}`} className={look.file}>
              <Icon name="file-text" />
              <span className={look.name}>{text}</span>
              <Button
                look="quiet"
                icon="x"
                aria-label={t('remove-one', { name: text })}
                onPress={() => change(ids.filter((one) => one !== id))}
              />
            </li>
          )
        })}
        {sending.map(({ key, name: text, size, sent, error, stop }) => (
          <li key={key} className={look.file}>
            <span className={look.name}>{text}</span>
            {error ? (
              <span className={css.error} role="alert">
                {error}
              </span>
            ) : (
              <progress value={sent} max={size} aria-label={t('records.files.sending', { name: text })} />
            )}
            <Button
              look="quiet"
              icon="x"
              aria-label={error ? t('remove-one', { name: text }) : t('records.files.stop', { name: text })}
              onPress={() => (error ? setSending((all) => all.filter((one) => one.key !== key)) : stop.abort())}
            />
          </li>
        ))}
      </ul>
      {left > 0 && (
        // biome-ignore lint/a11y/noStaticElementInteractions: files can be dropped here; the button does the same
        <div
          className={look.drop}
          data-over={isOver}
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
            ref={picker}
            type="file"
            className={look.picker}
            tabIndex={-1}
            aria-hidden="true"
            multiple={left > 1}
            onChange={(event) => {
              take(event.target.files)
              event.target.value = ''
            }}
          />
          <Button icon="upload" onPress={() => picker.current?.click()}>
            {t('records.files.choose')}
          </Button>
          <span className={css.hint}>{t('records.files.drop')}</span>
        </div>
      )}
    </Fieldset>
  )
}
