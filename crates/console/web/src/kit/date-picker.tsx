// Dates and moments, typed segment by segment or chosen from a calendar.

import {
  type DateValue,
  fromAbsolute,
  now,
  parseDate,
  setLocalTimeZone,
  toCalendarDate,
  today,
  toZoned,
  type ZonedDateTime,
} from '@internationalized/date'
import { type KeyboardEvent, useContext, useMemo } from 'react'
import {
  Calendar,
  CalendarCell,
  CalendarGrid,
  CalendarGridBody,
  CalendarGridHeader,
  CalendarHeaderCell,
  DateFieldStateContext,
  DateInput,
  DatePicker,
  DatePickerStateContext,
  DateSegment,
  Dialog,
  Group,
  Heading,
  Button as KitButton,
  Popover,
} from 'react-aria-components'
import { t } from '../texts.ts'
import { Button } from './buttons.tsx'
import css from './controls.module.css'
import look from './date-field.module.css'
import { type DateProps, hintOf } from './date-field.tsx'
import { Below, Caption } from './fields.tsx'
import { Icon } from './icons.tsx'
import { Layer } from './keys.ts'
import { useHold, useMessages } from './messages.ts'

const wholeMinute = (moment: ZonedDateTime) => moment.set({ second: 0, millisecond: 0 })

/** Of the milliseconds of a moment, or of a day. Nothing where that is none, as in an address that somebody wrote. */
function dateOf(value: number | string, zone: string): DateValue | null {
  if (typeof value === 'number') return Number.isNaN(value) ? null : wholeMinute(fromAbsolute(value, zone))
  try {
    return parseDate(value)
  } catch {
    return null
  }
}

/** Enter sends the form, as it does from a field of the browser's own. */
function sendByEnter({ key, target, currentTarget }: KeyboardEvent) {
  const isTyped = target instanceof Element && target.matches('[role=spinbutton]')
  if (key === 'Enter' && isTyped) currentTarget.closest('form')?.requestSubmit()
}

export function Picker(props: DateProps) {
  const { name, value, onChange, hasTime = false, zone, isDisabled = false, isReadOnly = false } = props
  const isRequired = props.isRequired ?? false
  // The calendar marks the day that is today for whoever looks, not for his machine.
  setLocalTimeZone(zone)
  // Another object is another value for the picker, which forgets the segments that were typed; the API writes a moment otherwise.
  const read = hasTime ? Date.parse(value) : value.slice(0, 10)
  const date = useMemo(() => dateOf(read, zone), [read, zone])
  const empty = useMemo(() => (hasTime ? toZoned(today(zone), zone) : today(zone)), [hasTime, zone])
  const isInvalid = useMessages(name) !== undefined
  const take = (next: DateValue | null) => {
    if (next === null) onChange(null)
    else onChange(hasTime ? toZoned(next, zone).toAbsoluteString() : toCalendarDate(next).toString())
  }
  return (
    <DatePicker
      className={`${css.field} ${look.picker}`}
      data-field={name}
      value={date}
      placeholderValue={empty}
      granularity={hasTime ? 'minute' : 'day'}
      hideTimeZone
      shouldForceLeadingZeros
      isRequired={isRequired}
      isDisabled={isDisabled}
      isReadOnly={isReadOnly}
      isInvalid={isInvalid}
      validationBehavior="aria"
      onChange={take}
    >
      <Caption {...props} />
      <div role="presentation" className={look.group} onKeyDownCapture={sendByEnter}>
        <Group className={css.group ?? ''}>
          <DateInput className={`${css.input} ${look.segments}`}>
            {(segment) => (
              <>
                <DateSegment segment={segment} className={look.segment ?? ''} />
                {segment.type === 'day' && <Half name={name} />}
              </>
            )}
          </DateInput>
          <KitButton className={`${css.button} ${css.icon}`}>
            <Icon name="calendar" />
          </KitButton>
        </Group>
      </div>
      <Below name={name} hint={hintOf(props)} />
      <Popover className={css.popover ?? ''}>
        <Dialog className={look.dialog ?? ''}>
          <Layer>
            <Month />
            <Ends zone={zone} hasTime={hasTime} isRequired={isRequired} />
          </Layer>
        </Dialog>
      </Popover>
    </DatePicker>
  )
}

/** What is no whole date, or no date at all, changes nothing yet: the form is not sent as if it did. */
function Half({ name }: { name: string }) {
  const { segments = [], value } = useContext(DateFieldStateContext) ?? {}
  const typed = segments.filter(({ isEditable }) => isEditable)
  const missing = typed.filter(({ isPlaceholder }) => isPlaceholder).length
  const isHalf = missing > 0 && missing < typed.length
  // On leaving the field, the 31st of February becomes the 28th.
  const isNone = missing === 0 && typed.find(({ type }) => type === 'day')?.value !== value?.day
  useHold(name, isHalf ? t('date.half') : isNone ? t('date.none') : undefined)
  return null
}

const Month = () => (
  <Calendar>
    <div className={look.month}>
      <KitButton slot="previous" className={`${css.button} ${css.quiet} ${css.icon}`}>
        <Icon name="chevron-left" />
      </KitButton>
      <Heading className={look.title ?? ''} />
      <KitButton slot="next" className={`${css.button} ${css.quiet} ${css.icon}`}>
        <Icon name="chevron-right" />
      </KitButton>
    </div>
    <CalendarGrid className={look.grid ?? ''} weekdayStyle="narrow">
      <CalendarGridHeader>
        {(day) => <CalendarHeaderCell className={look.weekday ?? ''}>{day}</CalendarHeaderCell>}
      </CalendarGridHeader>
      <CalendarGridBody>{(day) => <CalendarCell date={day} className={look.day ?? ''} />}</CalendarGridBody>
    </CalendarGrid>
  </Calendar>
)

/** What ends the choice without a day of the month that is shown. */
function Ends({ zone, hasTime, isRequired }: { zone: string; hasTime: boolean; isRequired: boolean }) {
  const state = useContext(DatePickerStateContext)
  const end = (value: DateValue | null) => {
    state?.setValue(value)
    state?.setOpen(false)
  }
  return (
    <div className={look.ends}>
      <Button look="quiet" onPress={() => end(hasTime ? wholeMinute(now(zone)) : today(zone))}>
        {t(hasTime ? 'date.now' : 'date.today')}
      </Button>
      {!isRequired && state?.value && (
        <Button look="quiet" onPress={() => end(null)}>
          {t('date.clear')}
        </Button>
      )}
    </div>
  )
}
