// A form that makes a record.

import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { anything, instance as instanceQuery, invalidate, options, page } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import type { Field, Fields, FormConfiguration, Instance, Json, Use } from '../../api/shapes.ts'
import { changed } from '../../generic/changes.ts'
import { Reading } from '../../generic/failure.tsx'
import { Form } from '../../generic/form.tsx'
import generic from '../../generic/generic.module.css'
import { Link, useGo } from '../../generic/go.tsx'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { say } from '../../kit/toasts.tsx'
import { t } from '../../texts.ts'
import { fieldsIn, type Section, STANDALONE, sectionsOf, visibleSections } from './configuration.ts'
import { Layout } from './layout.tsx'
import { recordFields } from './record-fields.ts'
import { RecordFormInput } from './record-input.tsx'
import { refusal, within } from './refusals.ts'

export const FORMS = '/api/object-class-forms/'
const CLASSES = '/api/object-classes/'

export const mayFillIn = (form: Instance) => {
  const permissions = form._meta?.permissions as unknown as Fields | undefined
  return ((permissions?.object_records ?? {}) as Fields).create === true
}

/** The place of a form that is opened from the list of its class; undefined on a page of its own. */
interface Place {
  above: ReactNode
  onMade: (made: Instance) => void
  onCancel: () => void
}

export function OneForm({ uuid, place }: { uuid: string; place?: Place }) {
  const path = `${FORMS}${uuid}/`
  const form = useQuery(instanceQuery(path))
  const configured = useQuery(anything<FormConfiguration>(`${path}configuration/`))
  const formInstance = form.data?.instance
  const classPath = `${CLASSES}${formInstance?.object_class}/`
  const described = useQuery({ ...options(`${classPath}object-records/`), enabled: formInstance !== undefined })
  const reading = [form, configured, described]
  if (!formInstance || !configured.data || !described.data) return <Reading of={reading} title={t('forms.one.title')} />
  const fields = recordFields(described.data)
  // A configuration of another kind, and none: all fields in their order.
  const sections = sectionsOf(configured.data.configuration) ?? [
    { title: '', text: '', when: undefined, items: fields.map(({ alias }) => ({ field: alias })) },
  ]
  return (
    <>
      <Reading of={reading} />
      <Fill form={formInstance} classPath={classPath} sections={sections} fields={fields} place={place} />
    </>
  )
}

const defaultsOf = (fields: Field[]): Fields =>
  Object.fromEntries(fields.flatMap((field) => (field.default === undefined ? [] : [[field.alias, field.default]])))

interface FillProps {
  place: Place | undefined
  form: Instance
  classPath: string
  sections: Section[]
  fields: Field[]
}

/** Returns the refusal of the fields that must have a value and have none; undefined if all have one. */
function missingValues(inputs: Field[], values: Fields) {
  const isEmpty = (value: Json | undefined) => value === undefined || value === null || value === ''
  const missing = inputs.filter(({ alias, required, type }) => required && type !== 'boolean' && isEmpty(values[alias]))
  if (missing.length === 0) return undefined
  return refusal(
    missing.map(({ alias }) => alias),
    t('required'),
  )
}

/** The values of a form, and how they become a record. */
function useFill({ place, classPath, sections, fields }: FillProps) {
  const [before] = useState(() => defaultsOf(fieldsIn(sections, fields)))
  const [values, setValues] = useState(before)
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const [created, setCreated] = useState<Instance | undefined>()
  const [round, setRound] = useState(0)
  const visible = visibleSections(sections, values)
  const use: Use = place ? 'object_class_create_form' : STANDALONE
  const inputs = fieldsIn(visible, fields, use)
  const restart = () => {
    setRound((count) => count + 1)
    setValues(before)
    setError(undefined)
    setIsBusy(false)
    setCreated(undefined)
  }
  const send = async (andNew = false) => {
    const missing = missingValues(inputs, values)
    if (missing) return setError(missing)
    setIsBusy(true)
    try {
      const aliases = new Set(inputs.map(({ alias }) => alias))
      const body = { fields: Object.fromEntries(Object.entries(values).filter(([alias]) => aliases.has(alias))) }
      const { data } = await call<Instance>('POST', `${classPath}object-records/`, { body })
      void invalidate(classPath)
      if (andNew) {
        say(t('forms.sent', { id: `${data.id}` }))
        restart()
      } else if (place) place.onMade(data)
      else setCreated(data)
    } catch (refused) {
      setError(within(refused, 'fields'))
      setIsBusy(false)
    }
  }
  return {
    values,
    change: (alias: string, value: Json) => setValues((now) => ({ ...now, [alias]: value })),
    isChanged: Object.keys(changed(before, values)).length > 0,
    isBusy,
    error,
    created,
    visible,
    use,
    inputs,
    round,
    restart,
    send,
  }
}

function Fill(props: FillProps) {
  const { form, place } = props
  const fill = useFill(props)
  const { inputs, visible, use, isChanged, restart } = fill
  const go = useGo()
  if (fill.created) return <Created form={form} record={fill.created} onAgain={restart} />
  return (
    <>
      {place?.above}
      <header className={generic.head}>
        <h1 tabIndex={-1}>{`${form.name}`}</h1>
      </header>
      {!mayFillIn(form) && <p className={css.notice}>{t('forms.may-not')}</p>}
      <Form
        key={fill.round}
        fields={inputs}
        sections={[]}
        values={fill.values}
        inputs={Object.fromEntries(inputs.map(({ alias }) => [alias, RecordFormInput]))}
        error={fill.error}
        isBusy={fill.isBusy}
        isChanged={isChanged}
        submit={t(place ? 'create' : 'forms.send')}
        layout={(input) => <Layout sections={visible} use={use} input={input} />}
        onChange={fill.change}
        onSubmit={() => void fill.send()}
        onSubmitAndNew={place && (() => void fill.send(true))}
        onCancel={place?.onCancel ?? (() => (isChanged ? restart() : go('/forms')))}
      />
    </>
  )
}

/** The thanks after a form was sent, with a link to its record. */
function Created({ form, record, onAgain }: { form: Instance; record: Instance; onAgain: () => void }) {
  const classes = useQuery(page(CLASSES, `id=${form.object_class}&limit=1`))
  const alias = classes.data?.results[0]?.alias
  return (
    <>
      <h1 tabIndex={-1}>{`${form.name}`}</h1>
      <div className={css.notice} data-tone="ok" role="status">
        <p>{t('forms.sent', { id: `${record.id}` })}</p>
      </div>
      <p className={css.actions}>
        {alias !== undefined && (
          <Link className={css.button} to={`/records/${alias}/${record.id}`}>
            {t('forms.to-record')}
          </Link>
        )}
        <Button onPress={onAgain}>{t('forms.again')}</Button>
      </p>
    </>
  )
}
