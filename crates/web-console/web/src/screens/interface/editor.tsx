// One UI configuration as a form, with a preview and the JSON beside it. Both change the same content.

import { useQuery } from '@tanstack/react-query'
import { type ReactNode, type Ref, useId, useMemo, useRef, useState } from 'react'
import { parseJson, writeJson } from '../../api/json.ts'
import { Refusal } from '../../api/refusal.ts'
import type { Fields, Json } from '../../api/shapes.ts'
import type { Reading as Understood } from '../../api/written.ts'
import { isEqual, messages } from '../../generic/changes.ts'
import { Failure, Reading } from '../../generic/failure.tsx'
import { Leaving } from '../../generic/form.tsx'
import generic from '../../generic/generic.module.css'
import { shortened } from '../../generic/not-understood.tsx'
import { type Kept, readToWrite, storeConfiguration } from '../../generic/ui-config.ts'
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
  /** Called with the saved instance. */
  onSaved?: (content: T, kept: Json) => void
}

export function Editor<T extends object>(props: EditorProps<T>) {
  const { component } = props
  // Always read again: a write must not be based on an old state.
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

type OpenedProps<T extends object> = EditorProps<T> & { kept: Kept }

/** The content as it is edited, by the form or as JSON, and how it is saved. */
function useContent<T extends object>({ component, understand, components, onSaved, kept }: OpenedProps<T>) {
  const [before, setBefore] = useState(kept)
  const [content, setContent] = useState<Json>(() => kept.content ?? written(understand(undefined).content))
  /** The JSON as it was typed; undefined if the form changed the content later. */
  const [typed, setTyped] = useState<string | undefined>()
  const [wrong, setWrong] = useState<string | undefined>()
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  /** The version that another user saved meanwhile. */
  const [theirs, setTheirs] = useState<Kept | undefined>()
  const { content: understood, flaws } = useMemo(() => understand(content), [content, understand])
  const start = before.content ?? written(understand(undefined).content)
  const isChanged = wrong !== undefined || !isEqual(start, content)
  const set = (next: Json) => {
    setContent(next)
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
    setIsBusy(true)
    setError(undefined)
    try {
      const now = await storeConfiguration(component, content as Fields, over, components?.(understood))
      setBefore(now)
      onSaved?.(understood, content)
      say(t('saved'))
    } catch (refused) {
      if (refused instanceof Refusal && refused.status === 412) setTheirs(await readToWrite(component))
      else setError(refused)
    }
    setIsBusy(false)
  }
  return {
    understood,
    flaws,
    json: typed ?? writeJson(content, 2),
    wrong,
    error,
    isBusy,
    isChanged,
    theirs,
    setTheirs,
    change: (next: T) => set(written(next)),
    reset: () => set(start),
    type,
    save,
  }
}

function Opened<T extends object>(props: OpenedProps<T>) {
  const { form } = props
  const edited = useContent(props)
  const { wrong, error, isBusy, theirs, setTheirs } = edited
  const [view, setView] = useState<View>('preview')
  const side = useRef<HTMLElement>(null)
  const save = (over?: Kept) => {
    if (!wrong) return void edited.save(over)
    setView('json')
    requestAnimationFrame(() => side.current?.querySelector('textarea')?.focus())
  }
  useShortcuts([{ keys: 'Ctrl+S', text: t('save'), run: () => save() }])
  return (
    <div className={look.editor}>
      <form
        className={generic.form}
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          save()
        }}
      >
        {error !== undefined && <Failure error={error} />}
        {form(edited.understood, edited.change)}
        <div className={`${css.actions} ${generic.buttons}`}>
          <Button type="submit" look="primary" isDisabled={isBusy}>
            {t('save')}
          </Button>
          <Button look="quiet" isDisabled={isBusy || !edited.isChanged} onPress={edited.reset}>
            {t('cancel')}
          </Button>
        </div>
      </form>
      <Beside edited={edited} preview={props.preview} view={view} onView={setView} sideRef={side} />
      <Leaving isChanged={() => edited.isChanged && !isBusy} />
      {theirs !== undefined && (
        <Confirmation
          title={t('conflict.replace')}
          text={t('interface.conflict')}
          action={t('forms.conflict.over')}
          isOpen
          onConfirm={() => {
            setTheirs(undefined)
            save(theirs)
          }}
          onClose={() => setTheirs(undefined)}
        />
      )}
    </div>
  )
}

type View = 'preview' | 'json'

interface BesideProps<T extends object> {
  edited: ReturnType<typeof useContent<T>>
  preview: (content: T) => ReactNode
  view: View
  onView: (view: View) => void
  sideRef: Ref<HTMLElement>
}

/** The preview of the content, or its JSON, with the parts that the console does not understand. */
function Beside<T extends object>({ edited, preview, view, onView, sideRef }: BesideProps<T>) {
  const { error, flaws } = edited
  const refused = error instanceof Refusal && error.status === 400 ? messages(error.body) : {}
  const message = edited.wrong ?? refused.content
  const id = useId()
  return (
    <section className={look.side} aria-labelledby={id} ref={sideRef}>
      <h2 id={id} className="hidden">
        {t(view === 'preview' ? 'preview' : 'interface.json')}
      </h2>
      <div className={css.actions}>
        <Button aria-pressed={view === 'preview'} onPress={() => onView('preview')}>
          {t('preview')}
        </Button>
        <Button aria-pressed={view === 'json'} onPress={() => onView('json')}>
          {t('interface.json')}
        </Button>
      </div>
      {flaws.length > 0 && (
        <p className={css.notice} data-tone="warn" role="status">
          {t('interface.json.left-out', { places: shortened(flaws) })}
        </p>
      )}
      {view === 'preview' ? (
        <div className={look.paper}>{preview(edited.understood)}</div>
      ) : (
        <MessagesContext value={message === undefined ? {} : { json: message }}>
          <TextField
            name="json"
            label={t('interface.json')}
            hint={t('interface.json.hint')}
            isRequired
            isLong
            value={edited.json}
            onChange={edited.type}
          />
        </MessagesContext>
      )}
    </section>
  )
}
