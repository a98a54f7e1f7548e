// The task of a template: fixed after its creation, and shown later.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { options, page } from '../../api/query.ts'
import type { Choice, Field, Fields, Json } from '../../api/shapes.ts'
import generic from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import { FieldInput } from '../../generic/input.tsx'
import { Ordered } from '../../generic/ordered.tsx'
import type { InputProps } from '../../generic/resource.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Chooser, Fieldset, TextField } from '../../kit/fields.tsx'
import { Value } from '../../kit/values.tsx'
import look from '../../shared/designer.module.css'
import { questionsOf } from '../../shared/forms/questions.ts'
import { recordFields } from '../../shared/forms/record-fields.ts'
import { moved } from '../../shared/positions.ts'
import { labelOf, t } from '../../texts.ts'
import { QuestionPreview, Questions } from './questions.tsx'

const UPDATE = 'tt_object_record_update'
const CLASSES = '/api/object-classes/'

const objectOf = (value: Json | undefined): Fields =>
  value && typeof value === 'object' && !Array.isArray(value) ? value : {}

/** The fields of a class, from the schema of its records. */
function useClassFields(id: Json | undefined): Field[] {
  const { data } = useQuery({ ...options(`${CLASSES}${id}/object-records/`), enabled: typeof id === 'number' })
  return typeof id === 'number' ? recordFields(data) : []
}

export function PluginConfig({ field, name, value, onChange }: InputProps) {
  const config = objectOf(value)
  const set = (change: Fields) => onChange({ ...config, ...change })
  const member = (alias: string) => {
    const one = field.schema?.find((each) => each.alias === alias)
    if (!one) return null
    return (
      <FieldInput
        field={one}
        name={`${name}.${alias}`}
        value={alias === 'allow_comment' ? config[alias] !== false : config[alias]}
        onChange={(changed) => set({ [alias]: changed })}
      />
    )
  }
  const configuration = objectOf(config.configuration)
  return (
    <Fieldset name={name} label={labelOf(field)} hint={t('plugin-config.hint')}>
      <div className={look.preview}>
        <FieldInput
          field={{
            ...(field.schema?.find(({ alias }) => alias === 'task_type') as Field),
            label: t('field.task_type'),
          }}
          name={`${name}.task_type`}
          value={config.task_type}
          onChange={(type) => set({ task_type: type, configuration: {} })}
        />
        <TextField
          name={`${name}.prompt`}
          label={t('field.prompt')}
          hint={t('field.prompt.hint')}
          isLong
          maxLength={500}
          value={typeof config.prompt === 'string' ? config.prompt : ''}
          onChange={(prompt) => set({ prompt })}
        />
        {config.task_type === 'tt_form' && (
          <Questions
            name={`${name}.configuration`}
            value={configuration}
            onChange={(changed) => set({ configuration: changed })}
          />
        )}
        {config.task_type === UPDATE && (
          <RecordFields
            name={`${name}.configuration`}
            value={configuration}
            onChange={(changed) => set({ configuration: changed })}
          />
        )}
        {member('allow_comment')}
        {member('approval_required')}
        {config.approval_required === true && member('approval_conditions')}
      </div>
    </Fieldset>
  )
}

/** The fields of a record that the assignees fill in, in their order. */
function RecordFields({ name, value, onChange }: { name: string; value: Fields; onChange: (value: Fields) => void }) {
  const [chosenClass, setChosenClass] = useState<Choice | null>(null)
  const all = useClassFields(value.object_class)
  const aliases = Array.isArray(value.fields) ? value.fields.map(String) : []
  const labelIn = (alias: string) => all.find((one) => one.alias === alias)?.label ?? alias
  const set = (fields: string[]) => onChange({ ...value, fields })
  const unusedFields = all.filter(({ alias }) => !aliases.includes(alias))
  return (
    <>
      <Chooser
        name={`${name}.object_class`}
        label={t('resource.object_class')}
        isRequired
        autocomplete={`${CLASSES}autocomplete/?text__icontains=`}
        value={(value.object_class as number | undefined) ?? null}
        text={chosenClass?.text ?? ''}
        onChange={(choice) => {
          setChosenClass(choice)
          onChange({ ...value, object_class: choice?.value ?? null, fields: [] })
        }}
      />
      {typeof value.object_class === 'number' && (
        <Fieldset name={`${name}.fields`} label={t('record-fields')} hint={t('record-fields.hint')}>
          <Ordered
            label={t('record-fields')}
            items={aliases}
            keyOf={(alias) => alias}
            nameOf={labelIn}
            onMove={(from, to) => set(moved(aliases, from, to))}
          >
            {(alias, n) => (
              <div className={look.field}>
                <div className={look.what}>
                  <strong>{labelIn(alias)}</strong> <code>{alias}</code>
                </div>
                <Button
                  look="quiet"
                  icon="trash-2"
                  aria-label={t('remove-one', { name: labelIn(alias) })}
                  onPress={() => set(aliases.toSpliced(n, 1))}
                />
              </div>
            )}
          </Ordered>
          <Chooser
            isAdding
            name={`${name}.add`}
            label={t('record-fields.add')}
            isRequired
            choices={unusedFields.map((one) => ({ value: one.alias, text: labelOf(one) }))}
            value={null}
            onChange={(choice) => choice && set([...aliases, `${choice.value}`])}
          />
        </Fieldset>
      )}
      <TextField
        name={`${name}.instructions`}
        label={t('task.instructions')}
        isLong
        maxLength={4000}
        value={typeof value.instructions === 'string' ? value.instructions : ''}
        onChange={(instructions) => onChange({ ...value, instructions })}
      />
    </>
  )
}

/** Only tasks that change a record can be created for each new record. */
export function Creation({ field, name, value, onChange, values }: InputProps) {
  if (objectOf(values.plugin_config).task_type !== UPDATE) return null
  return (
    <FieldInput
      field={{ ...field, required: true, description: t('task-creation.hint') }}
      name={name}
      value={value ?? 'manual'}
      onChange={onChange}
    />
  )
}

export function PluginConfigView({ value }: { value: Json }) {
  const [isShown, setIsShown] = useState(false)
  const config = objectOf(value)
  const configuration = objectOf(config.configuration)
  const questions = questionsOf(configuration)
  const conditions = (Array.isArray(config.approval_conditions) ? config.approval_conditions : []) as Fields[]
  return (
    <div className={look.set}>
      <p>{t(config.task_type === UPDATE ? 'task-type.update' : 'task-type.form')}</p>
      {typeof config.prompt === 'string' && config.prompt && <p className={generic.written}>{config.prompt}</p>}
      {config.task_type === UPDATE && <UpdateView configuration={configuration} />}
      {questions && (
        <>
          <ol className={look.questions}>
            {questions.map((question) => (
              <li key={question.name}>
                {question.label}{' '}
                <span className={css.optional}>
                  {t(`question-type.${question.type}`)}
                  {question.required && `, ${t('flag.required')}`}
                </span>
              </li>
            ))}
          </ol>
          <div>
            <Button onPress={() => setIsShown(true)}>{t('preview')}</Button>
          </div>
        </>
      )}
      {!questions && config.task_type !== UPDATE && Object.keys(configuration).length > 0 && (
        <Value type="json" value={configuration} />
      )}
      <p>{t(config.allow_comment === true ? 'plugin-config.comment' : 'plugin-config.no-comment')}</p>
      <p>
        {t(config.approval_required === true ? 'plugin-config.approval' : 'plugin-config.no-approval')}{' '}
        {conditions.length > 0 &&
          t('plugin-config.conditions', { names: conditions.map(({ name }) => `${name}`).join(', ') })}
      </p>
      {isShown && questions && <QuestionPreview questions={questions} onClose={() => setIsShown(false)} />}
    </div>
  )
}

function UpdateView({ configuration }: { configuration: Fields }) {
  const id = configuration.object_class
  const all = useClassFields(id)
  const { data } = useQuery(page(CLASSES, `id=${id}&limit=1`))
  const aliases = Array.isArray(configuration.fields) ? configuration.fields.map(String) : []
  return (
    <>
      <p>
        <Link to={`/admin/classes/${id}`}>{`${data?.results[0]?.name ?? `#${id}`}`}</Link>
      </p>
      <ol className={look.questions}>
        {aliases.map((alias) => (
          <li key={alias}>{all.find((one) => one.alias === alias)?.label ?? alias}</li>
        ))}
      </ol>
      {typeof configuration.instructions === 'string' && configuration.instructions && (
        <p className={generic.written}>{configuration.instructions}</p>
      )}
    </>
  )
}
