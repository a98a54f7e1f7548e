// A form of a resource: the typed values, their messages, and the body that is sent.

import { useBlocker } from '@tanstack/react-router'
import {
  type FocusEvent,
  type ReactNode,
  type Ref,
  type RefObject,
  useEffect,
  useImperativeHandle,
  useRef,
  useState,
} from 'react'
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
import { fieldAt, flawOf } from './check.ts'
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

/** The first values of a form. References become their ids. */
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
  /** Saves, and begins another instance. */
  onSubmitAndNew?: (() => void) | undefined
  /** Closes the form. A form with changes asks first. */
  onCancel: () => void
  /** True if the same request may be sent twice. The form then sends it again when the server can be reached. */
  isRepeatable?: boolean
  /** The reasons against submitting, if a part beside the form can have one. */
  holds?: Holds
  /** Closes it as `onCancel` does, from outside. */
  closing?: Ref<() => void>
  /** The layout of the fields, instead of sections. It gets a function from an alias to its input. */
  layout?: ((input: (alias: string) => ReactNode) => ReactNode) | undefined
  children?: ReactNode
}

/** Replaces a refusal of the API for a form that is not sent. */
const TOO_EARLY = new Refusal(400, {}, null, null)

export function Form(props: FormProps) {
  const { fields, isBusy, onCancel } = props
  const own = useHolds()
  const { reasons, hold } = props.holds ?? own
  const isHeld = Object.keys(reasons).length > 0
  /** A component may refuse a value before the user types. */
  const isChanged =
    props.isChanged || Object.keys(reasons).some((name) => !fields.find(({ alias }) => alias === name)?.custom)
  const form = useRef<HTMLFormElement>(null)
  const checks = useChecks(props, reasons, form)
  const { error, refused } = checks
  /** Two keys may come before the form is drawn again. */
  const isSending = useRef(isBusy)
  isSending.current = isBusy
  const whenFree = (run: () => void) => () => {
    if (isSending.current) return
    isSending.current = !isHeld
    checks.begin()
    if (!isHeld) run()
  }
  const submit = whenFree(props.onSubmit)
  const submitAndNew = props.onSubmitAndNew && whenFree(props.onSubmitAndNew)
  const isBack = useReached(error, () => props.isRepeatable === true && submit())
  const [isAsked, setIsAsked] = useState(false)
  /** A user who confirmed once is not asked again by the page that is left. */
  const isGoing = useRef(false)
  useEffect(() => {
    if (!isChanged) isGoing.current = false
  }, [isChanged])
  const cancel = () => (isChanged && !isBusy ? setIsAsked(true) : onCancel())
  useImperativeHandle(props.closing, () => cancel)
  useShortcuts([
    { keys: 'Ctrl+S', text: props.submit, run: submit },
    { keys: 'Ctrl+Enter', text: submitAndNew ? t('save-and-new') : props.submit, run: submitAndNew ?? submit },
    { keys: 'Escape', text: t('close'), run: cancel, isInFields: true },
  ])
  useUndisturbed(isChanged)
  return (
    <HoldContext value={hold}>
      <MessagesContext value={checks.messages}>
        <form
          ref={form}
          className={look.form}
          noValidate
          onSubmit={(event) => {
            event.preventDefault()
            // The events of a form in a dialog reach the form that opened the dialog.
            event.stopPropagation()
            submit()
          }}
          onBlur={checks.checkTyped}
        >
          {error !== null && error !== undefined && (
            <Summary error={error} refused={refused} fields={fields} form={form}>
              <Unreached error={error} isBack={isBack} isRepeatable={props.isRepeatable === true} />
            </Summary>
          )}
          {fields.some((field) => field.write_only || field.alias === 'password') && <ForWhom />}
          <FormFields {...props} onTouched={checks.touch} />
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

/**
 * The messages of a form by the names of the fields. A message of the API remains until its field is changed. The
 * console adds messages when a field is left. `reasons`: those against submitting.
 */
function useChecks(props: FormProps, reasons: Messages, form: RefObject<HTMLFormElement | null>) {
  const { fields, values, instance } = props
  const isHeld = Object.keys(reasons).length > 0
  /** The form was submitted while there was a reason against submitting. */
  const [isTooEarly, setIsTooEarly] = useState(false)
  if (isTooEarly && !isHeld) setIsTooEarly(false)
  const error = isTooEarly ? TOO_EARLY : props.error
  const refused = isTooEarly ? reasons : error instanceof Refusal && error.status === 400 ? messagesOf(error.body) : {}
  const [flaws, setFlaws] = useState<Messages>({})
  const [answered, setAnswered] = useState<unknown>()
  const [touched, setTouched] = useState<string[]>([])
  if (answered !== error) {
    setAnswered(error)
    setTouched([])
  }
  const isTouched = (name: string) => touched.some((alias) => name === alias || name.startsWith(`${alias}.`))
  return {
    error,
    refused,
    messages: {
      ...Object.fromEntries(Object.entries(refused).filter(([name]) => isTooEarly || !isTouched(name))),
      ...flaws,
    },
    /** The form is submitted. */
    begin: () => {
      setIsTooEarly(isHeld)
      setFlaws({})
    },
    /** The value of a field is changed. */
    touch: (alias: string) => {
      setTouched([...touched, alias])
      setFlaws((all) => Object.fromEntries(Object.entries(all).filter(([name]) => name.split('.')[0] !== alias)))
    },
    /** Checks the value of a field that loses the focus. */
    checkTyped: ({ target, relatedTarget }: FocusEvent) => {
      // A message that moves a button away from under the pointer would take the click.
      if (!form.current?.contains(target) || relatedTarget instanceof HTMLButtonElement) return
      const name = target.getAttribute('name') ?? ''
      const typed = fieldAt(fields, values, name)
      const flaw = typed && flawOf(typed.field, typed.value, typed.field.write_only === true && instance !== undefined)
      const { [name]: _, ...others } = flaws
      const text = flaw && t(flaw.key, 'limit' in flaw ? { limit: flaw.limit } : undefined)
      if (text !== undefined) setFlaws({ ...others, [name]: text })
      else if (name in flaws) setFlaws(others)
    },
  }
}

interface SummaryProps {
  error: unknown
  refused: Messages
  fields: Field[]
  form: RefObject<HTMLFormElement | null>
  /** Shown for an error that names no field. */
  children: ReactNode
}

/** Lists the messages of a refused form above its fields. Each message moves the focus to its field. */
function Summary({ error, refused, fields, form, children }: SummaryProps) {
  const summary = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (error) summary.current?.focus()
  }, [error])
  const focusField = (name: string) => {
    const exact = `[name="${CSS.escape(name)}"], [data-field="${CSS.escape(name)}"] :is(input, iframe)`
    const place = form.current?.querySelector<HTMLElement>(exact) ?? document.querySelector<HTMLElement>(exact)
    place?.focus()
  }
  const labelled = (name: string) => {
    const [alias = ''] = name.split('.')
    return labelOf(fields.find((field) => field.alias === alias) ?? { alias })
  }
  return (
    <div ref={summary} tabIndex={-1} className={look.summary}>
      {Object.keys(refused).length > 0 ? (
        <div className={css.notice} data-tone="danger" role="alert">
          <h2>{t('there-is-a-problem')}</h2>
          <ul className={look.problems}>
            {Object.entries(refused).map(([name, text]) => (
              <li key={name}>
                {name ? (
                  <button type="button" className={look.jump} onClick={() => focusField(name)}>
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
        children
      )}
    </div>
  )
}

/** The inputs of a form: in its layout, else in its sections. A field without a section comes last. */
function FormFields(props: FormProps & { onTouched: (alias: string) => void }) {
  const { fields, sections, layout } = props
  const input = (alias: string) => <FormInput key={alias} {...props} alias={alias} />
  if (layout) return layout((alias) => (fields.some((field) => field.alias === alias) ? input(alias) : null))
  const aliases = new Set(fields.map(({ alias }) => alias))
  const others = fields.filter(({ alias }) => sections.every((section) => !section.fields.includes(alias)))
  return (
    <>
      {sections.map((section) => {
        const inputs = section.fields.filter((alias) => aliases.has(alias)).map(input)
        if (inputs.length === 0) return null
        return (
          <section key={section.heading ?? section.title} className={section.isStep ? look.step : look.section}>
            <h2>{section.heading ?? t(section.title)}</h2>
            {section.hint && <p className={css.hint}>{t(section.hint)}</p>}
            {inputs}
          </section>
        )
      })}
      {others.length > 0 && <section className={look.section}>{others.map(({ alias }) => input(alias))}</section>}
    </>
  )
}

type FormInputProps = FormProps & { alias: string; onTouched: (alias: string) => void }

function FormInput({ alias, fields, values, instance, inputs, isBusy, onTouched, ...props }: FormInputProps) {
  const field = fields.find((candidate) => candidate.alias === alias)
  if (!field) return null
  const onChange = (value: Json) => {
    onTouched(alias)
    props.onChange(alias, value)
  }
  const Own = inputs?.[alias]
  if (Own) {
    const own: InputProps = { field, name: alias, value: values[alias] ?? null, onChange, instance, values }
    return <Own {...own} />
  }
  return (
    <FieldInput
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

/** Asks before a page with changes is left. */
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
