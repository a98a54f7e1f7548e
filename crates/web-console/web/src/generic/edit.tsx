// Edits one instance in place, merging the changes of other users.

import { type ReactNode, useState } from 'react'
import { invalidate, queries, type Read } from '../api/query.ts'
import { Refusal } from '../api/request.ts'
import type { Fields, Instance, Options } from '../api/shapes.ts'
import { say } from '../kit/toasts.tsx'
import { t } from '../texts.ts'
import { changed } from './changes.ts'
import { editable, Form, fieldsFor } from './form.tsx'
import { useMerging, useSettled } from './merging.tsx'
import type { Inputs, Parts, Section, Shape } from './resource.ts'
import { sendFields } from './shape.ts'

export interface EditProps {
  path: string
  /** The path of other data that the page shows of the instance. */
  list: string
  sections: Section[]
  hidden?: string[] | undefined
  inputs?: Inputs | undefined
  counts?: Parts['counts'] | undefined
  /** The content above the buttons, from the values to be saved. */
  warning?: ((before: Fields, values: Fields) => ReactNode) | undefined
  shape?: Shape | undefined
  read: Read
  details: Options['details']
  /** True if the instance was never saved. Required values are then sent, changed or not. */
  isUnset?: boolean | undefined
  /** Called with the saved instance. */
  onSaved?: ((instance: Instance) => void) | undefined
  onDone: () => void
}

export function Edit(props: EditProps) {
  const { path, list, sections, hidden, inputs, counts, warning, shape, read, details, onDone } = props
  const fields = (values: Fields) =>
    fieldsFor(details, values).filter(({ alias, editable: can }) => can !== false && !hidden?.includes(alias))
  const { base, values, setValues, merged, question, settled } = useMerging(
    path,
    () => ({ ...read, values: editable(read.instance, fields(read.instance)) }),
    (answer) => {
      const instance = shape ? shape.instance(answer) : answer
      const own = fields(instance)
      return { instance, values: editable(instance, own), fields: own }
    },
  )
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const now = { ...base.instance, ...values }
  const fieldsNow = fields(now).filter(({ alias }) => counts?.(alias, now) !== false)
  const groups = fieldsNow.filter(({ schema, type }) => type === 'object' && schema).map(({ alias }) => alias)
  const changes = changed(base.values, values, groups)
  const isChanged = Object.keys(changes).length > 0
  const save = async () => {
    if (!isChanged) return onDone()
    setIsBusy(true)
    try {
      const required = props.isUnset ? fieldsNow.filter((field) => field.required).map(({ alias }) => alias) : []
      const body = { ...Object.fromEntries(required.map((alias) => [alias, values[alias]])), ...changes }
      const { data, etag } = await sendFields('PATCH', path, body as Fields, shape, base.etag)
      queries.setQueryData([path, 'instance'], { instance: data, etag })
      void invalidate(list, path)
      props.onSaved?.(data)
      say(t('saved'))
      onDone()
    } catch (refused) {
      if (refused instanceof Refusal && refused.status === 412) await merged().catch(setError)
      else setError(refused)
    } finally {
      setIsBusy(false)
    }
  }
  useSettled(settled, () => void save())
  return (
    <>
      <Form
        fields={fieldsNow}
        sections={sections}
        values={values}
        instance={base.instance}
        inputs={inputs}
        error={error}
        isBusy={isBusy}
        isChanged={isChanged}
        isRepeatable
        submit={t('save')}
        onChange={(alias, value) => setValues((before) => ({ ...before, [alias]: value }))}
        onSubmit={() => void save()}
        onCancel={onDone}
      >
        {warning?.(base.values, values)}
      </Form>
      {question}
    </>
  )
}
