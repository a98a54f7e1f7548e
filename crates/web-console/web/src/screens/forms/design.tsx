// The page on which a form is designed: its sections, how it will look, and its JSON.

import { useQuery } from '@tanstack/react-query'
import { memo, type ReactNode, useCallback, useDeferredValue, useEffect, useMemo, useState } from 'react'
import { anything, instance as instanceQuery, invalidate, options, queries } from '../../api/query.ts'
import { call, Refusal } from '../../api/request.ts'
import type { Field, Fields, FormConfiguration, Instance, Json, Options } from '../../api/shapes.ts'
import { AskFirst } from '../../generic/ask-first.tsx'
import { isEqual } from '../../generic/changes.ts'
import { Reading } from '../../generic/failure.tsx'
import { Form } from '../../generic/form.tsx'
import generic from '../../generic/generic.module.css'
import { Link, useGo, useHere } from '../../generic/go.tsx'
import { FieldInput } from '../../generic/input.tsx'
import { Button, Menu } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Confirmation } from '../../kit/dialogs.tsx'
import { HoldContext, useHolds } from '../../kit/messages.ts'
import { say } from '../../kit/toasts.tsx'
import {
  configurationOf,
  fieldsIn,
  flaws,
  type Section,
  sectionsOf,
  visibleSections,
} from '../../shared/forms/configuration.ts'
import look from '../../shared/forms/forms.module.css'
import { Layout } from '../../shared/forms/layout.tsx'
import { FORMS } from '../../shared/forms/one-form.tsx'
import { recordFields } from '../../shared/forms/record-fields.ts'
import { RecordInput } from '../../shared/forms/record-input.tsx'
import { labelOf, t } from '../../texts.ts'
import { Designer } from './designer.tsx'

const CLASSES = '/api/object-classes/'
const NONE: Section[] = []

export function FormDesign() {
  const { path: here } = useHere()
  const [, , , classId = '', , uuid = ''] = here.split('/')
  return <Loaded key={uuid} classId={classId} uuid={uuid} />
}

function Loaded({ classId, uuid }: { classId: string; uuid: string }) {
  const isNew = uuid === 'new'
  const path = `${FORMS}${uuid}/`
  const described = useQuery(options(FORMS))
  const records = useQuery(options(`${CLASSES}${classId}/object-records/`))
  const form = useQuery({ ...instanceQuery(path), enabled: !isNew })
  const configured = useQuery({ ...anything<FormConfiguration>(`${path}configuration/`), enabled: !isNew })
  const owner = useQuery(instanceQuery(`${CLASSES}${classId}/`))
  const fields = useMemo(() => recordFields(records.data), [records.data])
  const reading = [described, records, owner, ...(isNew ? [] : [form, configured])]
  if (!described.data || !records.data || !owner.data || (!isNew && (!form.data || !configured.data)))
    return <Reading of={reading} title={t('forms.one.title')} />
  return (
    <>
      <Reading of={reading} />
      <Design
        path={isNew ? undefined : path}
        classId={Number(classId)}
        className={`${owner.data.instance.name}`}
        details={described.data.details}
        fields={fields}
        form={form.data?.instance}
        etag={form.data?.etag ?? null}
        configuration={configured.data?.configuration ?? configurationOf([])}
      />
    </>
  )
}

/** The components that a form names, each once. */
const componentsIn = (sections: Section[]): number[] => [
  ...new Set(
    sections.flatMap(({ items }) => items.flatMap(({ component }) => (typeof component === 'number' ? component : []))),
  ),
]

interface DesignProps {
  /** The path of the form; undefined for a new one. */
  path: string | undefined
  classId: number
  className: string
  details: Options['details']
  fields: Field[]
  form: Instance | undefined
  etag: string | null
  configuration: Json
}

/** The form as it is edited: its values, and how they are saved and deleted. */
function useDesign({ path, classId, form, etag, configuration }: DesignProps) {
  const go = useGo()
  const [before, setBefore] = useState<Fields>(() => ({
    name: form?.name ?? '',
    is_enabled: form?.is_enabled ?? false,
    configuration,
  }))
  const [tag, setTag] = useState(etag)
  const [values, setValues] = useState(before)
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  /** The entity tag of the version that another user saved meanwhile. */
  const [theirs, setTheirs] = useState<string | undefined>()
  const sections = useMemo(() => sectionsOf(values.configuration), [values.configuration])
  const isChanged = !isEqual(before, values)
  // The next address, for when nothing is left to lose.
  const [next, setNext] = useState<string | undefined>()
  useEffect(() => {
    if (next && !isChanged && !isBusy) go(next, true)
  }, [next, isChanged, isBusy, go])
  const back = `/admin/classes/${classId}`
  const change = useCallback((alias: string, value: Json) => setValues((now) => ({ ...now, [alias]: value })), [])
  const send = async (ifMatch: string | null) => {
    const body = { ...values, custom_components: componentsIn(sections ?? []) }
    if (path) {
      const { etag: now } = await call('PATCH', path, { body, ifMatch })
      setTag(now)
      queries.removeQueries({ queryKey: [path] })
    } else {
      const created = { ...body, object_class: classId, type: 'create' }
      const { data } = await call<Instance>('POST', FORMS, { body: created })
      setNext(`${back}/forms/${data.uuid}`)
    }
  }
  const save = async (over?: string | null) => {
    setIsBusy(true)
    try {
      await send(over ?? tag)
      setBefore(values)
      setError(undefined)
      say(t('saved'))
      void invalidate(FORMS)
    } catch (refused) {
      if (path && refused instanceof Refusal && refused.status === 412)
        await call('GET', path).then(({ etag: now }) => setTheirs(now ?? undefined), setError)
      else setError(refused)
    } finally {
      setIsBusy(false)
    }
  }
  const remove = async () => {
    await call('DELETE', `${path}`, { ifMatch: tag })
    setValues(before)
    void invalidate(FORMS)
    say(t('deleted'))
    setNext(back)
  }
  return { values, change, sections, isChanged, isBusy, error, theirs, setTheirs, save, remove, back }
}

function Design(props: DesignProps) {
  const { className, details, fields, form } = props
  const go = useGo()
  const design = useDesign(props)
  const { values, change, sections, theirs, setTheirs, save, back } = design
  const [isDeleting, setIsDeleting] = useState(false)
  /** Counts the changes by the designer: each draws the JSON beside it again. */
  const [round, setRound] = useState(0)
  const holds = useHolds()
  const { gone: deletedAliases, missing } = flaws(sections ?? [], fields)
  const redesign = useCallback(
    (now: Section[]) => {
      setRound((count) => count + 1)
      change('configuration', configurationOf(now))
    },
    [change],
  )
  const ownFields = details.schema.filter(({ alias }) => alias === 'name' || alias === 'is_enabled')
  return (
    <>
      <DesignHead back={back} className={className} form={form} onDelete={() => setIsDeleting(true)} />
      <div className={look.designer}>
        <Form
          fields={ownFields.map((field) => (field.alias === 'is_enabled' ? { ...field, label: t('forms.on') } : field))}
          sections={[]}
          values={values}
          instance={form}
          error={design.error}
          isBusy={design.isBusy}
          isChanged={design.isChanged}
          holds={holds}
          submit={t('save')}
          onChange={change}
          onSubmit={() => void save()}
          onCancel={() => go(back)}
        >
          <section className={generic.section} aria-label={t('forms.sections')}>
            <h2>{t('forms.sections')}</h2>
            {!sections && <p className={css.notice}>{t('forms.other-kind')}</p>}
            {missing.length > 0 && sections && (
              <p className={css.notice} data-tone="warn">
                {t('forms.missing', { names: missing.map(labelOf).join(', ') })}
              </p>
            )}
            {deletedAliases.length > 0 && (
              <p className={css.notice} data-tone="warn">
                {t('forms.gone', { names: deletedAliases.join(', ') })}
              </p>
            )}
            <Designer sections={sections ?? NONE} fields={fields} onChange={redesign} />
          </section>
        </Form>
        <Beside sections={sections} fields={fields} holds={holds}>
          <FieldInput
            key={round}
            field={{ alias: 'configuration', type: 'json', required: true, label: t('forms.json') }}
            name="configuration"
            value={values.configuration}
            onChange={(changed) => change('configuration', changed ?? {})}
          />
        </Beside>
      </div>
      {theirs !== undefined && (
        <Confirmation
          title={t('conflict.replace')}
          text={t('forms.conflict')}
          action={t('forms.conflict.over')}
          isOpen
          onConfirm={() => {
            setTheirs(undefined)
            void save(theirs)
          }}
          onClose={() => setTheirs(undefined)}
        />
      )}
      {isDeleting && (
        <AskFirst
          title={t('ask', { action: t('delete'), name: `${form?.name}` })}
          text={t('forms.deletes')}
          action={t('delete')}
          run={design.remove}
          onClose={() => setIsDeleting(false)}
        />
      )}
    </>
  )
}

interface DesignHeadProps {
  back: string
  className: string
  form: Instance | undefined
  onDelete: () => void
}

const DesignHead = ({ back, className, form, onDelete }: DesignHeadProps) => (
  <>
    <nav className={generic.trail} aria-label={t('trail')}>
      <Link to="/admin/classes">{t('object-classes')}</Link>
      {' / '}
      <Link to={back}>{className}</Link>
    </nav>
    <header className={generic.head}>
      <h1 tabIndex={-1}>{form ? `${form.name}` : t('create-one', { one: t('forms.one') })}</h1>
      <div className={generic.spacer} />
      {form && (
        <>
          <Link className={css.button} to={`/forms/${form.uuid}`}>
            {t('forms.fill-in')}
          </Link>
          <Menu
            isOffered
            label={t('actions')}
            actions={[{ id: 'delete', text: t('delete'), isDangerous: true, run: onDelete }]}
          />
        </>
      )}
    </header>
  </>
)

interface BesideProps {
  sections: Section[] | undefined
  fields: Field[]
  holds: ReturnType<typeof useHolds>
  /** The input for the JSON. */
  children: ReactNode
}

/** The preview of the form, or its JSON. */
function Beside({ sections, fields, holds, children }: BesideProps) {
  const [view, setView] = useState<'preview' | 'json'>('preview')
  // A form of 500 fields is drawn after the designer, so that keys are not delayed.
  const drawn = useDeferredValue(sections)
  return (
    <aside className={look.side} aria-label={t(view === 'preview' ? 'preview' : 'forms.json')}>
      <div className={css.actions}>
        <Button
          aria-pressed={view === 'preview'}
          isDisabled={Object.keys(holds.reasons).length > 0}
          onPress={() => setView('preview')}
        >
          {t('preview')}
        </Button>
        <Button aria-pressed={view === 'json'} onPress={() => setView('json')}>
          {t('forms.json')}
        </Button>
      </div>
      {view === 'preview' ? (
        <Look sections={drawn ?? NONE} fields={fields} />
      ) : (
        <HoldContext value={holds.hold}>{children}</HoldContext>
      )}
    </aside>
  )
}

/** The form as people will see it. Typed values are not sent. */
const Look = memo(function Look({ sections, fields }: { sections: Section[]; fields: Field[] }) {
  const [values, setValues] = useState<Fields>({})
  const visible = visibleSections(sections, values)
  const visibleFields = fieldsIn(visible, fields)
  return (
    <div className={look.paper}>
      {visible.length === 0 && <p className={generic.none}>{t('forms.empty')}</p>}
      <Layout
        sections={visible}
        input={(alias) => {
          const field = visibleFields.find((one) => one.alias === alias)
          if (!field) return null
          return (
            <RecordInput
              field={field}
              name={`preview.${alias}`}
              value={values[alias] ?? field.default ?? null}
              onChange={(value) => setValues((now) => ({ ...now, [alias]: value }))}
            />
          )
        }}
      />
    </div>
  )
})
