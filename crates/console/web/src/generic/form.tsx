// A form of a resource: what is typed, what the API says of it, and what of it is sent.

import { useBlocker } from '@tanstack/react-router'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { Refusal } from '../api/request.ts'
import type { Field, Fields, Instance, Json, Options } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { Confirmation } from '../kit/dialogs.tsx'
import { ForWhom } from '../kit/fields.tsx'
import { useShortcuts } from '../kit/keys.ts'
import { MessagesContext } from '../kit/messages.ts'
import { isReference } from '../kit/values.tsx'
import { labelOf, t } from '../texts.ts'
import { messages as messagesOf } from './changes.ts'
import { Failure } from './failure.tsx'
import look from './generic.module.css'
import { FieldInput } from './input.tsx'
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
  onCancel: () => void
  /** Where the fields stand, instead of in sections; it is given each by its alias. */
  layout?: ((input: (alias: string) => ReactNode) => ReactNode) | undefined
  children?: ReactNode
}

export function Form(props: FormProps) {
  const { fields, values, error, isBusy, isChanged, onSubmit, onSubmitAndNew, onCancel, instance } = props
  const refused = error instanceof Refusal && error.status === 400 ? messagesOf(error.body) : {}
  const [answered, setAnswered] = useState<unknown>()
  const [touched, setTouched] = useState<string[]>([])
  if (answered !== error) {
    setAnswered(error)
    setTouched([])
  }
  const isTouched = (name: string) => touched.some((alias) => name === alias || name.startsWith(`${alias}.`))
  const messages = Object.fromEntries(Object.entries(refused).filter(([name]) => !isTouched(name)))
  const summary = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (error) summary.current?.focus()
  }, [error])
  const form = useRef<HTMLFormElement>(null)
  useShortcuts([
    { keys: 'Ctrl+S', text: t('save'), run: onSubmit },
    { keys: 'Ctrl+Enter', text: t('save-and-new'), run: onSubmitAndNew ?? onSubmit },
  ])
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
      />
    )
  }
  const find = (name: string) => {
    const exact = form.current?.querySelector<HTMLElement>(
      `[name="${CSS.escape(name)}"], [data-field="${CSS.escape(name)}"] input`,
    )
    exact?.focus()
  }
  const labelled = (name: string) => {
    const field = fields.find(({ alias }) => alias === name.split('.')[0])
    return field ? labelOf(field) : name
  }
  return (
    <MessagesContext value={messages}>
      <form
        ref={form}
        className={look.form}
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          // A form in a dialog stands inside the one that opened it, as far as events go.
          event.stopPropagation()
          onSubmit()
        }}
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
              <Failure error={error} />
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
                {section.text && <p className={look.written}>{section.text}</p>}
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
          {onSubmitAndNew && (
            <Button onPress={onSubmitAndNew} isDisabled={isBusy}>
              {t('save-and-new')}
            </Button>
          )}
          <Button look="quiet" onPress={onCancel}>
            {t('cancel')}
          </Button>
        </div>
      </form>
      <Leaving isChanged={isChanged && !isBusy} />
    </MessagesContext>
  )
}

/** Asks before what was typed is left. */
export function Leaving({ isChanged }: { isChanged: boolean }) {
  const blocker = useBlocker({
    shouldBlockFn: () => isChanged,
    enableBeforeUnload: () => isChanged,
    withResolver: true,
  })
  if (blocker.status !== 'blocked') return null
  return (
    <Confirmation
      title={t('leave.title')}
      text={t('leave.text')}
      action={t('leave.action')}
      isOpen
      onConfirm={blocker.proceed}
      onClose={blocker.reset}
    />
  )
}
