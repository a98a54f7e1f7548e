// A form of a resource: what is typed, what the API says of it, and what of it is sent.

import { useBlocker } from '@tanstack/react-router'
import { type FocusEvent, type ReactNode, type Ref, useEffect, useImperativeHandle, useRef, useState } from 'react'
import { useUndisturbed } from '../api/query.ts'
import { Refusal } from '../api/request.ts'
import type { Field, Fields, Instance, Json, Options } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { Confirmation } from '../kit/dialogs.tsx'
import { ForWhom } from '../kit/fields.tsx'
import { useShortcuts } from '../kit/keys.ts'
import { HoldContext, type Holds, type Messages, MessagesContext, useHolds } from '../kit/messages.ts'
import { isReference } from '../kit/values.tsx'
import { labelOf, t } from '../texts.ts'
import { messages as messagesOf } from './changes.ts'
import { at, flawOf } from './check.ts'
import look from './generic.module.css'
import { FieldInput } from './input.tsx'
import { Unreached, useReached } from './reached.tsx'
import type { InputProps, Inputs, Section } from './resource.ts'

/** The fields of a form, those of the chosen variant included. */
export function fieldsFor(schema: Options['details'], values: Fields): Field[] {
  const more = Object.entries(schema).flatMap(([name, variants]) => {
    if (!name.startsWith('schema_by_')) return []
    const chosen = values[name.slice('schema_by_'.length)]
    return (variants as { [value: string]: Field[] })[`${chosen}`] ?? []
  })
  const own = schema.schema.filter((field) => more.every(({ alias }) => alias !== field.alias))
  const variants = new Set(
    Object.entries(schema).flatMap(([name, all]) =>
      name.startsWith('schema_by_')
        ? Object.values(all as { [value: string]: Field[] }).flatMap((fields) => fields.map(({ alias }) => alias))
        : [],
    ),
  )
  return [...own.filter(({ alias }) => !variants.has(alias)), ...more]
}

/** What a form begins with: references become their ids. */
export function editable(instance: Fields, fields: Field[]): Fields {
  const plain = (value: Json | undefined): Json => {
    if (isReference(value)) return (value as Fields).id ?? null
    return Array.isArray(value) ? value.map(plain) : (value ?? null)
  }
  return Object.fromEntries(
    fields.filter(({ alias }) => alias in instance).map(({ alias }) => [alias, plain(instance[alias])]),
  )
}

export interface FormProps {
  fields: Field[]
  sections: Section[]
  values: Fields
  instance?: Instance | undefined
  inputs?: Inputs | undefined
  error: unknown
  isBusy: boolean
  isChanged: boolean
  submit: string
  onChange: (alias: string, value: Json) => void
  onSubmit: () => void
  /** Saves and begins another one, where that makes sense. */
  onSubmitAndNew?: (() => void) | undefined
  /** Closes the form; what was changed is asked about before. */
  onCancel: () => void
  /** Whether the same may be sent twice, so that it is sent again by itself when the server can be reached. */
  isRepeatable?: boolean
  /** What keeps it from being sent, where that may stand beside the form. */
  holds?: Holds
  /** Closes it as `onCancel` does, from outside. */
  closing?: Ref<() => void>
  /** Where the fields stand, instead of in sections; it is given each by its alias. */
  layout?: ((input: (alias: string) => ReactNode) => ReactNode) | undefined
  children?: ReactNode
}

/** In place of an answer of the API, of what need not be asked. */
const TOO_EARLY = new Refusal(400, {}, null, null)

export function Form(props: FormProps) {
  const { fields, values, isBusy, onCancel, instance } = props
  const own = useHolds()
  const { held, hold } = props.holds ?? own
  const isHeld = Object.keys(held).length > 0
  /** What a component has against a value may be there before anything was typed. */
  const isChanged =
    props.isChanged || Object.keys(held).some((name) => !fields.find(({ alias }) => alias === name)?.custom)
  /** Somebody wanted to send what cannot be sent yet. */
  const [isTooEarly, setIsTooEarly] = useState(false)
  if (isTooEarly && !isHeld) setIsTooEarly(false)
  const error = isTooEarly ? TOO_EARLY : props.error
  const refused = isTooEarly ? held : error instanceof Refusal && error.status === 400 ? messagesOf(error.body) : {}
  /** What is wrong with what was typed, as far as it is known without asking. */
  const [found, setFound] = useState<Messages>({})
  const [answered, setAnswered] = useState<unknown>()
  const [touched, setTouched] = useState<string[]>([])
  if (answered !== error) {
    setAnswered(error)
    setTouched([])
  }
  const isTouched = (name: string) => touched.some((alias) => name === alias || name.startsWith(`${alias}.`))
  const messages = {
    ...Object.fromEntries(Object.entries(refused).filter(([name]) => isTooEarly || !isTouched(name))),
    ...found,
  }
  /** Two keys may come before the form is drawn anew. */
  const isSending = useRef(isBusy)
  isSending.current = isBusy
  const whenFree = (run: () => void) => () => {
    if (isSending.current) return
    isSending.current = !isHeld
    setIsTooEarly(isHeld)
    setFound({})
    if (!isHeld) run()
  }
  const submit = whenFree(props.onSubmit)
  const submitAndNew = props.onSubmitAndNew && whenFree(props.onSubmitAndNew)
  const isBack = useReached(error, () => props.isRepeatable === true && submit())
  const [isAsked, setIsAsked] = useState(false)
  /** Who was asked once is not asked again by the page that is left. */
  const isGoing = useRef(false)
  useEffect(() => {
    if (!isChanged) isGoing.current = false
  }, [isChanged])
  const cancel = () => (isChanged && !isBusy ? setIsAsked(true) : onCancel())
  useImperativeHandle(props.closing, () => cancel)
  const form = useRef<HTMLFormElement>(null)
  const check = ({ target, relatedTarget }: FocusEvent) => {
    // A message that moves a button away from under the pointer would take the click.
    if (!form.current?.contains(target) || relatedTarget instanceof HTMLButtonElement) return
    const name = target.getAttribute('name') ?? ''
    const typed = at(fields, values, name)
    const flaw = typed && flawOf(typed.field, typed.value, typed.field.write_only === true && instance !== undefined)
    const { [name]: _, ...others } = found
    const text = flaw && t(flaw.key, 'limit' in flaw ? { limit: flaw.limit } : undefined)
    if (text !== undefined) setFound({ ...others, [name]: text })
    else if (name in found) setFound(others)
  }
  const summary = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (error) summary.current?.focus()
  }, [error])
  useShortcuts([
    { keys: 'Ctrl+S', text: props.submit, run: submit },
    { keys: 'Ctrl+Enter', text: submitAndNew ? t('save-and-new') : props.submit, run: submitAndNew ?? submit },
    { keys: 'Escape', text: t('close'), run: cancel, isInFields: true },
  ])
  useUndisturbed(isChanged)
  const known = new Set(fields.map(({ alias }) => alias))
  const shown = props.sections.map((section) => ({
    ...section,
    fields: section.fields.filter((alias) => known.has(alias)),
  }))
  const rest = fields.filter(({ alias }) => props.sections.every((section) => !section.fields.includes(alias)))
  const input = (alias: string) => {
    const field = fields.find((one) => one.alias === alias)
    if (!field) return null
    const onChange = (value: Json) => {
      setTouched([...touched, alias])
      setFound((all) => Object.fromEntries(Object.entries(all).filter(([name]) => name.split('.')[0] !== alias)))
      props.onChange(alias, value)
    }
    const Own = props.inputs?.[alias]
    if (Own) {
      const own: InputProps = { field, name: alias, value: values[alias] ?? null, onChange, instance, values }
      return <Own key={alias} {...own} />
    }
    return (
      <FieldInput
        key={alias}
        field={field}
        name={alias}
        value={values[alias]}
        label={instance?._meta?.labels?.[alias]}
        onChange={onChange}
        isDisabled={isBusy}
        isNew={instance === undefined}
      />
    )
  }
  const find = (name: string) => {
    const exact = `[name="${CSS.escape(name)}"], [data-field="${CSS.escape(name)}"] :is(input, iframe)`
    const place = form.current?.querySelector<HTMLElement>(exact) ?? document.querySelector<HTMLElement>(exact)
    place?.focus()
  }
  const labelled = (name: string) => {
    const [alias = ''] = name.split('.')
    return labelOf(fields.find((field) => field.alias === alias) ?? { alias })
  }
  return (
    <HoldContext value={hold}>
      <MessagesContext value={messages}>
        <form
          ref={form}
          className={look.form}
          noValidate
          onSubmit={(event) => {
            event.preventDefault()
            // A form in a dialog stands inside the one that opened it, as far as events go.
            event.stopPropagation()
            submit()
          }}
          onBlur={check}
        >
          {error !== null && error !== undefined && (
            <div ref={summary} tabIndex={-1} className={look.summary}>
              {Object.keys(refused).length > 0 ? (
                <div className={css.notice} data-tone="danger" role="alert">
                  <h2>{t('there-is-a-problem')}</h2>
                  <ul className={look.problems}>
                    {Object.entries(refused).map(([name, text]) => (
                      <li key={name}>
                        {name ? (
                          <button type="button" className={look.jump} onClick={() => find(name)}>
                            {`${labelled(name)}: ${text}`}
                          </button>
                        ) : (
                          text
                        )}
                      </li>
                    ))}
                  </ul>
                </div>
              ) : (
                <Unreached error={error} isBack={isBack} isRepeatable={props.isRepeatable === true} />
              )}
            </div>
          )}
          {fields.some((field) => field.write_only || field.alias === 'password') && <ForWhom />}
          {props.layout?.(input)}
          {(props.layout ? [] : shown).map(
            (section) =>
              section.fields.length > 0 && (
                <section key={section.heading ?? section.title} className={section.isStep ? look.step : look.section}>
                  <h2>{section.heading ?? t(section.title)}</h2>
                  {section.hint && <p className={css.hint}>{t(section.hint)}</p>}
                  {section.fields.map(input)}
                </section>
              ),
          )}
          {!props.layout && rest.length > 0 && (
            <section className={look.section}>{rest.map(({ alias }) => input(alias))}</section>
          )}
          {props.children}
          <div className={`${css.actions} ${look.buttons}`}>
            <Button type="submit" look="primary" isDisabled={isBusy}>
              {props.submit}
            </Button>
            {submitAndNew && (
              <Button onPress={submitAndNew} isDisabled={isBusy}>
                {t('save-and-new')}
              </Button>
            )}
            <Button look="quiet" onPress={cancel}>
              {t('cancel')}
            </Button>
          </div>
        </form>
        <Leaving isChanged={() => isChanged && !isBusy && !isGoing.current} />
        {isAsked && (
          <Leave
            onLeave={() => {
              setIsAsked(false)
              isGoing.current = true
              onCancel()
            }}
            onStay={() => setIsAsked(false)}
          />
        )}
      </MessagesContext>
    </HoldContext>
  )
}

/** Asks before what was typed is left. */
export function Leaving({ isChanged }: { isChanged: () => boolean }) {
  const blocker = useBlocker({ shouldBlockFn: isChanged, enableBeforeUnload: isChanged, withResolver: true })
  return blocker.status === 'blocked' && <Leave onLeave={blocker.proceed} onStay={blocker.reset} />
}

const Leave = ({ onLeave, onStay }: { onLeave: () => void; onStay: () => void }) => (
  <Confirmation
    title={t('leave.title')}
    text={t('leave.text')}
    action={t('leave.action')}
    isOpen
    onConfirm={onLeave}
    onClose={onStay}
  />
)
