# SPDX-License-Identifier: GPL-2.0-only
#
# How a library of this folder is built: its Makefile sets NAME and PACKAGES, and includes this.
#
# make [OBJ=FOLDER]    builds OBJ/libNAME.a, which programs are linked with (see flags.mk)

TOP		:= $(realpath $(dir $(lastword $(MAKEFILE_LIST)))/..)
SRC		:= $(TOP)/utils/$(NAME)
OBJ		?= $(TOP)/build/obj/$(NAME)
LINKED		:=

include $(TOP)/utils/flags.mk
override CPPFLAGS += -D_GNU_SOURCE -I$(TOP)/utils -I$(TOP)/include/uapi \
		   $(if $(PACKAGES),$(shell $(PKG_CONFIG) --cflags $(PACKAGES)))

OBJECTS		:= $(patsubst $(SRC)/%.c,$(OBJ)/%.o,$(wildcard $(SRC)/*.c))

$(OBJ)/lib$(NAME).a: $(OBJECTS)
	rm -f $@
	$(AR) rcs $@ $^

$(OBJ)/%.o: $(SRC)/%.c $(SRC)/Makefile $(TOP)/utils/library.mk $(OBJ)/flags | $(OBJ)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(OBJ):
	mkdir -p $@

clean:
	rm -rf $(OBJ)

.PHONY: clean

-include $(OBJECTS:.o=.d)
