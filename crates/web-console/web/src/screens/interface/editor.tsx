// One UI configuration as a form, with a preview and the JSON beside it. Both change the same content.

import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useId, useMemo, useRef, useState } from 'react'
import { parseJson, writeJson } from '../../api/json.ts'
import { Refusal } from '../../api/refusal.ts'
import type { Fields, Json } from '../../api/shapes.ts'
import type { Reading as Understood } from '../../api/written.ts'
import { messages, same } from '../../generic/changes.ts'
import { Failure, Reading } from '../../generic/failure.tsx'
import { Leaving } from '../../generic/form.tsx'
import generic from '../../generic/generic.module.css'
import { shortened } from '../../generic/not-understood.tsx'
import { type Kept, keep, readToWrite } from '../../generic/ui-config.ts'
import { written } from '../../generic/ui-contents.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Confirmation } from '../../kit/dialogs.tsx'
import { TextField } from '../../kit/fields.tsx'
import { useShortcuts } from '../../kit/keys.ts'
import { MessagesContext } from '../../kit/messages.ts'
import { say } from '../../kit/toasts.tsx'
import { t } from '../../texts.ts'
import look from './interface.module.css'

export interface EditorProps<T extends object> {
  /** The name of the UI configuration. */
  component: string
  understand: (content: Json | undefined) => Understood<T>
  /** The custom components that a content names. */
  components?: (content: T) => number[]
  form: (content: T, change: (content: T) => void) => ReactNode
  preview: (content: T) => ReactNode
  /** Told of what was saved. */
  onSaved?: (content: T, kept: Json) => void
}

export function Editor<T extends object>(props: EditorProps<T>) {
  const { component } = props
  // Read anew: what another page read some minutes ago is no ground to build on.
  const opened = useQuery({
    queryKey: [component, 'edited'],
    queryFn: () => readToWrite(component),
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
  })
  return (
    <>
      <Reading of={[opened]} />
      {opened.data && <Opened key={component} {...props} kept={opened.data} />}
    </>
  )
}

function Opened<T extends object>({
  component,
  understand,
  components,
  form,
  preview,
  onSaved,
  kept,
}: EditorProps<T> & { kept: Kept }) {
  const [before, setBefore] = useState(kept)
  const [content, setContent] = useState<Json>(() => kept.content ?? written(understand(undefined).content))
  const [typed, setTyped] = useState<string | undefined>()
  const [wrong, setWrong] = useState<string | undefined>()
  const [view, setView] = useState<'preview' | 'json'>('preview')
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const [theirs, setTheirs] = useState<Kept | undefined>()
  const json = useRef<HTMLDivElement>(null)
  const { content: understood, flaws } = useMemo(() => understand(content), [content, understand])
  const start = before.content ?? written(understand(undefined).content)
  const isChanged = wrong !== undefined || !same(start, content)
  const change = (next: T) => {
    setContent(written(next))
    setTyped(undefined)
    setWrong(undefined)
  }
  const type = (text: string) => {
    setTyped(text)
    try {
      setContent(parseJson(text))
      setWrong(undefined)
    } catch (refused) {
      setWrong(t('interface.json.wrong', { reason: (refused as Error).message }))
    }
  }
  const save = async (over = before) => {
    if (wrong) {
      setView('json')
      requestAnimationFrame(() => json.current?.querySelector('textarea')?.focus())
      return
    }
    setIsBusy(true)
    setError(undefined)
    try {
      const now = await keep(component, content as Fields, over, components?.(understood))
      setBefore(now)
      onSaved?.(understood, content)
      say(t('saved'))
    } catch (refused) {
      if (refused instanceof Refusal && refused.status === 412) setTheirs(await readToWrite(component))
      else setError(refused)
    }
    setIsBusy(false)
  }
  useShortcuts([{ keys: 'Ctrl+S', text: t('save'), run: () => void save() }])
  const refused = error instanceof Refusal && error.status === 400 ? messages(error.body) : {}
  const told = wrong ?? refused.content
  const id = useId()
  return (
    <div className={look.editor}>
      <form
        className={generic.form}
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          void save()
        }}
      >
        {error !== undefined && <Failure error={error} />}
        {form(understood, change)}
        <div className={`${css.actions} ${generic.buttons}`}>
          <Button type="submit" look="primary" isDisabled={isBusy}>
            {t('save')}
          </Button>
          <Button
            look="quiet"
            isDisabled={isBusy || !isChanged}
            onPress={() => {
              setContent(start)
              setTyped(undefined)
              setWrong(undefined)
            }}
          >
            {t('cancel')}
          </Button>
        </div>
      </form>
      <section className={look.side} aria-labelledby={id} ref={json}>
        <h2 id={id} className="hidden">
          {t(view === 'preview' ? 'preview' : 'interface.json')}
        </h2>
        <div className={css.actions}>
          <Button aria-pressed={view === 'preview'} onPress={() => setView('preview')}>
            {t('preview')}
          </Button>
          <Button aria-pressed={view === 'json'} onPress={() => setView('json')}>
            {t('interface.json')}
          </Button>
        </div>
        {flaws.length > 0 && (
          <p className={css.notice} data-tone="warn" role="status">
            {t('interface.json.left-out', { places: shortened(flaws) })}
          </p>
        )}
        {view === 'preview' ? (
          <div className={look.paper}>{preview(understood)}</div>
        ) : (
          <MessagesContext value={told === undefined ? {} : { json: told }}>
            <TextField
              name="json"
              label={t('interface.json')}
              hint={t('interface.json.hint')}
              isRequired
              isLong
              value={typed ?? writeJson(content, 2)}
              onChange={type}
            />
          </MessagesContext>
        )}
      </section>
      <Leaving isChanged={() => isChanged && !isBusy} />
      {theirs !== undefined && (
        <Confirmation
          title={t('conflict.title')}
          text={t('interface.conflict')}
          action={t('forms.conflict.over')}
          isOpen
          onConfirm={() => {
            setTheirs(undefined)
            void save(theirs)
          }}
          onClose={() => setTheirs(undefined)}
        />
      )}
    </div>
  )
}
